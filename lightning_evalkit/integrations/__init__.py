"""Other trainers: evaluations inside the Hugging Face Trainer and Accelerate loops.

Import the file of the trainer that you use: ``integrations.transformers`` or ``integrations.accelerate``.
"""
