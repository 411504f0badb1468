"""Values and findings into what people look at."""
