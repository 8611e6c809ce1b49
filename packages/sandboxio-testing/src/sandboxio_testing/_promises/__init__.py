"""The promises themselves, as data, by what they are about."""
