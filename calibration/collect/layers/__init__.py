"""Sections of measure_layers.py; each module but `rows` needs PyTorch."""
