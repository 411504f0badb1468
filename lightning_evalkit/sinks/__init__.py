"""Shows values and findings: on a terminal, in figures, in TensorBoard, in files."""
