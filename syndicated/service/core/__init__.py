"""What the service does, without HTTP: decisions and rewards, administration, windows, logs in and out."""
