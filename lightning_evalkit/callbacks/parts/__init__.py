"""What callbacks share."""
