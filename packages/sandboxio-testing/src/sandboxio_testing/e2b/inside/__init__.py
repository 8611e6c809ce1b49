"""Programs that run inside a served sandbox; read as text by the server, never imported by it."""
