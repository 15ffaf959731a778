"""What fathom does in the Python of a script that it plays on a phantom GPU."""
