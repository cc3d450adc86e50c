"""The parts of `gnomon.torch.patch`: masks, attention and rotation of transformers models."""
