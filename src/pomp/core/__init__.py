"""What all else stands on: errors, settings, random streams, files, compiled code, CUDA."""
