"""Parts that several callbacks share."""
