"""Callbacks of the Lightning trainer: one public file each; ``parts`` holds what they share.

How to write one (CONTRIBUTING has an example):

1. Derive from ``parts.stage_hooks.StageHooks`` if stages are treated alike, else from ``trainer.Callback``. If you
   change anything, derive from ``RestoringCallback`` too and put it back in ``leave``, which also runs after an
   exception. Ask ``trainer`` for Lightning's insides: it knows both package names.
2. Every rank reads. Computing an evaluation is a collective, so all ranks must ask for the same things in the same
   order, a rank without data too. Only rank 0 draws and writes (``trainer.is_global_zero``).
3. Order of hooks: a callback's hook runs before the module's hook of the same name, and Lightning logs the scalars of
   an epoch after both. The step of these scalars is ``steps_done(trainer)``, less one in training.
4. The sanity check runs the validation hooks. Count in it, to find faults early, but log and draw nothing.
5. Names: log through ``parts.epoch_log``, which refuses names that something else has logged in this epoch.
6. Drawing must never end a run: draw inside ``SoftFailures.going_on``.
7. State in a checkpoint is plain numbers, text and tensors (``weights_only=True``). Several instances need different
   ``state_key``. Refuse the state of another declaration with a sentence.
"""

from lightning_evalkit.callbacks.diagnose import Diagnose as Diagnose
from lightning_evalkit.callbacks.evaluate import Evaluate as Evaluate
from lightning_evalkit.callbacks.exact_distributed import ExactDistributedEvaluation as ExactDistributedEvaluation
from lightning_evalkit.callbacks.exact_resume import ExactResume as ExactResume
from lightning_evalkit.callbacks.keep_counts import KeepCounts as KeepCounts
from lightning_evalkit.callbacks.loss_report import LossReport as LossReport
from lightning_evalkit.callbacks.prior_correction import PriorCorrection as PriorCorrection
from lightning_evalkit.callbacks.temperature_scaling import TemperatureScaling as TemperatureScaling
from lightning_evalkit.callbacks.tensorboard_report import TensorBoardReport as TensorBoardReport
from lightning_evalkit.callbacks.threshold_tuning import ThresholdTuning as ThresholdTuning
