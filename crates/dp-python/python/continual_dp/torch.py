"""Private gradients for PyTorch: an optimizer around an optimizer.

The caller brings the gradient of every person, as ``grad_sample`` of each parameter (what Opacus and ``torch.func`` make), with
a leading axis of people. They are clipped over all parameters together, summed and given their noise; the optimizer inside
sees nothing else. Nothing here imports torch: tensors are read and written through numpy.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

import numpy as np

from . import InputError, PrivateGradients

__all__ = ["PrivateOptimizer"]


class PrivateOptimizer:
    """An optimizer that sees noisy sums only.

    ``optimizer`` is any ``torch.optim.Optimizer``; ``gradients`` moves on with every step; ``batch_size`` is a public number
    by which the sum is divided.

    >>> from continual_dp.torch import PrivateOptimizer
    >>> PrivateOptimizer(optimizer=None, gradients=None, batch_size=0)
    Traceback (most recent call last):
        ...
    continual_dp._errors.InputError: batch_size is outside its range: a public number above 0
    """

    def __init__(self, optimizer: Any, gradients: PrivateGradients, *, batch_size: float) -> None:
        if not batch_size > 0:
            raise InputError("batch_size is outside its range: a public number above 0")
        self.optimizer = optimizer
        self.gradients = gradients
        self.batch_size = batch_size
        self._added = False

    @property
    def parameters(self) -> list[Any]:
        """All parameters that are learned, in the order of the optimizer's groups."""
        groups = self.optimizer.param_groups
        return [one for group in groups for one in group["params"] if one.requires_grad]

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Clips, sums and noises what is in ``grad_sample`` of every parameter, writes ``grad``, and takes a step.

        Where :meth:`add` was called before, the batch may be complete already. A batch without anybody has zero rows.
        """
        parameters = self.parameters
        samples = [getattr(one, "grad_sample", None) for one in parameters]
        if not self._added or any(sample is not None for sample in samples):
            self.add(samples)
        noisy = self.gradients.finish() / self.batch_size
        self._added = False
        start = 0
        for one in parameters:
            values = one.detach().cpu().numpy()
            part = noisy[start : start + values.size].reshape(values.shape).astype(values.dtype)
            start += values.size
            # A tensor of the same kind and place as the parameter.
            one.grad = one.detach().clone()
            one.grad.copy_(one.grad.new_tensor(part))
            one.grad_sample = None
        return self.optimizer.step(closure) if closure is not None else self.optimizer.step()

    def add(self, samples: Iterable[Any]) -> None:
        """Adds people to the batch before :meth:`step`: a tensor for every parameter, with a leading axis of people."""
        rows = []
        for sample in samples:
            if sample is None:
                raise InputError("grad_sample of a parameter is missing; compute the gradient of every person first")
            values = np.asarray(sample.detach().cpu().numpy())
            rows.append(values.reshape(values.shape[0], int(np.prod(values.shape[1:]))))
        if len({part.shape[0] for part in rows}) > 1:
            raise InputError("grad_sample of different parameters hold different numbers of people")
        self.gradients.add_many(np.concatenate(rows, axis=1))
        self._added = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of the last step."""
        self.optimizer.zero_grad(set_to_none)
        for one in self.parameters:
            one.grad_sample = None
