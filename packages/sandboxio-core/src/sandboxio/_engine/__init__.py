"""What happens to every operation of every backend, each rule written once."""
