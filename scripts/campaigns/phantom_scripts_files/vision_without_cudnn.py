"""The same LLaVA with torch.backends.cudnn.enabled = False: PyTorch's own convolutions."""
import torch

torch.backends.cudnn.enabled = False

import vision_language  # noqa: E402, F401
