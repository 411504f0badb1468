"""Corrects the logits that a module evaluates and predicts with: inside our modules, or after the call of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from lightning_evalkit.callbacks.parts.decisions import Passed
from lightning_evalkit.callbacks.parts.restoring import RestoringCallback
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.trainer import RunningStage

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.nn import Module

    from lightning_evalkit.trainer import LightningModule, Trainer


class Corrected:
    """Replaces a module's ``forward``, and corrects what it returns.

    A hook would not do: a strategy that wraps the module sends whole steps through its call, with a temporary
    ``forward``, and a hook would take the step's output for logits.
    """

    def __init__(self, module: Module) -> None:
        self.forward, self._instead = module.forward, vars(module).get("forward")
        self.corrections: list[Callable[[Any], Any]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module's own ``forward``, and correct the result."""
        output = self.forward(*args, **kwargs)
        for correction in self.corrections:
            output = correction(output)
        return output

    def leave(self, module: Module) -> None:
        """Restore the module once nothing is corrected any more."""
        if not self.corrections and vars(module).pop("forward", None) is not None and self._instead is not None:
            module.forward = self._instead


class Correction(RestoringCallback):
    """Applies a module to the logits of a LightningModule, in some stages.

    Our classifiers correct the logits they evaluate and predict with, not those of the loss. For any other module, the
    logits are what its call returns (or the call of its part ``submodule``), and everything that the module does with
    them in these stages uses the corrected ones.
    """

    correction: Module
    corrected: ClassVar[frozenset[RunningStage]]
    """The stages."""

    def __init__(self, submodule: str | None = None) -> None:
        self.submodule = submodule
        self._remove: Callable[[], None] | None = None
        self._applied = False
        self.passed: Passed | None = None  # of the last batch

    @property
    def ready(self) -> bool:
        """Whether the correction is fitted or fixed."""
        return True

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Start to correct the logits."""
        self.leave(trainer)
        self._applied = False

        def now(output: Any) -> Any:
            if trainer.state.stage not in self.corrected or not self.ready:
                return output
            self._applied, logits = True, self._logits(output)
            corrected: Tensor = self.correction.to(logits.device)(logits)
            self.passed = Passed(logits.detach(), corrected.detach())
            return corrected

        first = self.is_validated  # first, because the others are fitted to its output
        if self.submodule is not None:
            hook = self._part(pl_module).register_forward_hook(lambda _, __, output: now(output), prepend=first)
            self._remove = hook.remove
        elif has_a_place(pl_module):
            self._remove = _put(pl_module.corrections, now, first)
        else:
            self._remove = _put_behind_forward(pl_module, now, first)

    @property
    def is_validated(self) -> bool:
        """Whether validation sees the corrected logits."""
        return RunningStage.VALIDATING in self.corrected

    def _part(self, module: LightningModule) -> Module:
        assert self.submodule is not None  # asked for only then
        try:
            return module.get_submodule(self.submodule)
        except AttributeError:
            known = ", ".join(name for name, _ in module.named_children())
            raise DeclarationError(
                f"expected submodule to be a part of {type(module).__name__}, got {self.submodule!r}: it has {known}."
            ) from None

    def _logits(self, output: Any) -> Tensor:
        if not isinstance(output, Tensor) or not output.is_floating_point():
            got = f"a {output.dtype} tensor" if isinstance(output, Tensor) else type(output).__name__
            raise InputError(
                f"{type(self).__name__} corrects logits, but {self.submodule or 'the module'} returned {got}: name the "
                "part that returns logits with submodule='...'. Labels have no confidence that could be corrected."
            )
        return output

    def leave(self, trainer: Trainer) -> None:
        if self._remove is not None:
            self._remove()
            self._remove = None
        self.passed = None
        super().leave(trainer)

    def on_test_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Refuse a step that bypasses the correction: it would be evaluated uncorrected."""
        self._insist(pl_module, "test_step")

    def on_predict_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Refuse a step that bypasses the correction: it would predict uncorrected."""
        self._insist(pl_module, "predict_step")

    def _insist(self, module: LightningModule, step: str) -> None:
        if not self._applied:
            raise InputError(
                f"{type(self).__name__} corrects what {self.submodule or 'the module'} returns when it is called, but "
                f"{step} of {type(module).__name__} did not call it: call self(x) there, or name the part that it "
                "calls with submodule='...'."
            )


class LogitWatch:
    """Records the logits after all corrections, and leaves them unchanged."""

    def __init__(self, module: Any) -> None:
        self.passed: Passed | None = None
        own = has_a_place(module)
        self.leave = (_put if own else _put_behind_forward)(module.corrections if own else module, self._see, False)

    def _see(self, output: Any) -> Any:
        self.passed = Passed(output.detach(), output.detach()) if isinstance(output, Tensor) else None
        return output


def has_a_place(module: Any) -> bool:
    """Whether a module is one of our classifiers, which apply ``corrections`` themselves."""
    return isinstance(getattr(module, "corrections", None), list) and callable(getattr(module, "decided", None))


def _put(corrections: Any, correction: Callable[[Any], Any], first: bool) -> Callable[[], None]:
    corrections.insert(0 if first else len(corrections), correction)
    return lambda: corrections.remove(correction)


def _put_behind_forward(module: Module, correction: Callable[[Any], Any], first: bool) -> Callable[[], None]:
    if not isinstance(module.forward, Corrected):
        module.forward = Corrected(module)
    corrected: Corrected = module.forward
    remove = _put(corrected.corrections, correction, first)

    def leave() -> None:
        remove()
        corrected.leave(module)

    return leave
