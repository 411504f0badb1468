"""Single metrics: state and statistic in one ``torchmetrics.Metric``.

Classification code only has to change its import to ``from lightning_evalkit import metrics as torchmetrics``: other
names (``MetricCollection``, wrappers, means) are passed on from torchmetrics, ``functional`` is this package's.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torchmetrics

from lightning_evalkit.metrics.binary import BinaryAccuracy as BinaryAccuracy
from lightning_evalkit.metrics.binary import BinaryBalancedAccuracy as BinaryBalancedAccuracy
from lightning_evalkit.metrics.binary import BinaryCohenKappa as BinaryCohenKappa
from lightning_evalkit.metrics.binary import BinaryConfusionMatrix as BinaryConfusionMatrix
from lightning_evalkit.metrics.binary import BinaryF1Score as BinaryF1Score
from lightning_evalkit.metrics.binary import BinaryFBetaScore as BinaryFBetaScore
from lightning_evalkit.metrics.binary import BinaryFowlkesMallows as BinaryFowlkesMallows
from lightning_evalkit.metrics.binary import BinaryGeometricMean as BinaryGeometricMean
from lightning_evalkit.metrics.binary import BinaryHammingDistance as BinaryHammingDistance
from lightning_evalkit.metrics.binary import BinaryInformedness as BinaryInformedness
from lightning_evalkit.metrics.binary import BinaryJaccardIndex as BinaryJaccardIndex
from lightning_evalkit.metrics.binary import BinaryMarkedness as BinaryMarkedness
from lightning_evalkit.metrics.binary import BinaryMatthewsCorrCoef as BinaryMatthewsCorrCoef
from lightning_evalkit.metrics.binary import BinaryNegativePredictiveValue as BinaryNegativePredictiveValue
from lightning_evalkit.metrics.binary import BinaryPrecision as BinaryPrecision
from lightning_evalkit.metrics.binary import BinaryRecall as BinaryRecall
from lightning_evalkit.metrics.binary import BinarySpecificity as BinarySpecificity
from lightning_evalkit.metrics.binary import BinaryStatScores as BinaryStatScores
from lightning_evalkit.metrics.calibration import BinaryCalibrationError as BinaryCalibrationError
from lightning_evalkit.metrics.calibration import MulticlassCalibrationError as MulticlassCalibrationError
from lightning_evalkit.metrics.curves import BinaryAUROC as BinaryAUROC
from lightning_evalkit.metrics.curves import BinaryAveragePrecision as BinaryAveragePrecision
from lightning_evalkit.metrics.curves import BinaryEER as BinaryEER
from lightning_evalkit.metrics.curves import BinaryLogAUC as BinaryLogAUC
from lightning_evalkit.metrics.curves import BinaryPrecisionRecallCurve as BinaryPrecisionRecallCurve
from lightning_evalkit.metrics.curves import BinaryROC as BinaryROC
from lightning_evalkit.metrics.curves import MulticlassAUROC as MulticlassAUROC
from lightning_evalkit.metrics.curves import MulticlassAveragePrecision as MulticlassAveragePrecision
from lightning_evalkit.metrics.curves import MulticlassEER as MulticlassEER
from lightning_evalkit.metrics.curves import MulticlassLogAUC as MulticlassLogAUC
from lightning_evalkit.metrics.curves import MulticlassPrecisionRecallCurve as MulticlassPrecisionRecallCurve
from lightning_evalkit.metrics.curves import MulticlassROC as MulticlassROC
from lightning_evalkit.metrics.curves import MultilabelAUROC as MultilabelAUROC
from lightning_evalkit.metrics.curves import MultilabelAveragePrecision as MultilabelAveragePrecision
from lightning_evalkit.metrics.curves import MultilabelEER as MultilabelEER
from lightning_evalkit.metrics.curves import MultilabelLogAUC as MultilabelLogAUC
from lightning_evalkit.metrics.curves import MultilabelPrecisionRecallCurve as MultilabelPrecisionRecallCurve
from lightning_evalkit.metrics.curves import MultilabelROC as MultilabelROC
from lightning_evalkit.metrics.facades import AUROC as AUROC
from lightning_evalkit.metrics.facades import EER as EER
from lightning_evalkit.metrics.facades import ROC as ROC
from lightning_evalkit.metrics.facades import Accuracy as Accuracy
from lightning_evalkit.metrics.facades import AveragePrecision as AveragePrecision
from lightning_evalkit.metrics.facades import CalibrationError as CalibrationError
from lightning_evalkit.metrics.facades import CohenKappa as CohenKappa
from lightning_evalkit.metrics.facades import ConfusionMatrix as ConfusionMatrix
from lightning_evalkit.metrics.facades import ExactMatch as ExactMatch
from lightning_evalkit.metrics.facades import F1Score as F1Score
from lightning_evalkit.metrics.facades import FBetaScore as FBetaScore
from lightning_evalkit.metrics.facades import HammingDistance as HammingDistance
from lightning_evalkit.metrics.facades import HingeLoss as HingeLoss
from lightning_evalkit.metrics.facades import JaccardIndex as JaccardIndex
from lightning_evalkit.metrics.facades import LogAUC as LogAUC
from lightning_evalkit.metrics.facades import MatthewsCorrCoef as MatthewsCorrCoef
from lightning_evalkit.metrics.facades import NegativePredictiveValue as NegativePredictiveValue
from lightning_evalkit.metrics.facades import Precision as Precision
from lightning_evalkit.metrics.facades import PrecisionAtFixedRecall as PrecisionAtFixedRecall
from lightning_evalkit.metrics.facades import PrecisionRecallCurve as PrecisionRecallCurve
from lightning_evalkit.metrics.facades import Recall as Recall
from lightning_evalkit.metrics.facades import RecallAtFixedPrecision as RecallAtFixedPrecision
from lightning_evalkit.metrics.facades import SensitivityAtSpecificity as SensitivityAtSpecificity
from lightning_evalkit.metrics.facades import Specificity as Specificity
from lightning_evalkit.metrics.facades import SpecificityAtSensitivity as SpecificityAtSensitivity
from lightning_evalkit.metrics.facades import StatScores as StatScores
from lightning_evalkit.metrics.fairness import BinaryFairness as BinaryFairness
from lightning_evalkit.metrics.fairness import BinaryGroupStatRates as BinaryGroupStatRates
from lightning_evalkit.metrics.loss import MeanLoss as MeanLoss
from lightning_evalkit.metrics.loss import WorstLossShare as WorstLossShare
from lightning_evalkit.metrics.loss_profile import LossProfile as LossProfile
from lightning_evalkit.metrics.multiclass import MulticlassAccuracy as MulticlassAccuracy
from lightning_evalkit.metrics.multiclass import MulticlassCohenKappa as MulticlassCohenKappa
from lightning_evalkit.metrics.multiclass import MulticlassConfusionMatrix as MulticlassConfusionMatrix
from lightning_evalkit.metrics.multiclass import MulticlassExactMatch as MulticlassExactMatch
from lightning_evalkit.metrics.multiclass import MulticlassF1Score as MulticlassF1Score
from lightning_evalkit.metrics.multiclass import MulticlassFBetaScore as MulticlassFBetaScore
from lightning_evalkit.metrics.multiclass import MulticlassHammingDistance as MulticlassHammingDistance
from lightning_evalkit.metrics.multiclass import MulticlassJaccardIndex as MulticlassJaccardIndex
from lightning_evalkit.metrics.multiclass import MulticlassMatthewsCorrCoef as MulticlassMatthewsCorrCoef
from lightning_evalkit.metrics.multiclass import MulticlassNegativePredictiveValue as MulticlassNegativePredictiveValue
from lightning_evalkit.metrics.multiclass import MulticlassPrecision as MulticlassPrecision
from lightning_evalkit.metrics.multiclass import MulticlassRecall as MulticlassRecall
from lightning_evalkit.metrics.multiclass import MulticlassSpecificity as MulticlassSpecificity
from lightning_evalkit.metrics.multiclass import MulticlassStatScores as MulticlassStatScores
from lightning_evalkit.metrics.multilabel import MultilabelAccuracy as MultilabelAccuracy
from lightning_evalkit.metrics.multilabel import MultilabelConfusionMatrix as MultilabelConfusionMatrix
from lightning_evalkit.metrics.multilabel import MultilabelExactMatch as MultilabelExactMatch
from lightning_evalkit.metrics.multilabel import MultilabelF1Score as MultilabelF1Score
from lightning_evalkit.metrics.multilabel import MultilabelFBetaScore as MultilabelFBetaScore
from lightning_evalkit.metrics.multilabel import MultilabelHammingDistance as MultilabelHammingDistance
from lightning_evalkit.metrics.multilabel import MultilabelJaccardIndex as MultilabelJaccardIndex
from lightning_evalkit.metrics.multilabel import MultilabelMatthewsCorrCoef as MultilabelMatthewsCorrCoef
from lightning_evalkit.metrics.multilabel import MultilabelNegativePredictiveValue as MultilabelNegativePredictiveValue
from lightning_evalkit.metrics.multilabel import MultilabelPrecision as MultilabelPrecision
from lightning_evalkit.metrics.multilabel import MultilabelRecall as MultilabelRecall
from lightning_evalkit.metrics.multilabel import MultilabelSpecificity as MultilabelSpecificity
from lightning_evalkit.metrics.multilabel import MultilabelStatScores as MultilabelStatScores
from lightning_evalkit.metrics.points import BinaryPrecisionAtFixedRecall as BinaryPrecisionAtFixedRecall
from lightning_evalkit.metrics.points import BinaryRecallAtFixedPrecision as BinaryRecallAtFixedPrecision
from lightning_evalkit.metrics.points import BinarySensitivityAtSpecificity as BinarySensitivityAtSpecificity
from lightning_evalkit.metrics.points import BinarySpecificityAtSensitivity as BinarySpecificityAtSensitivity
from lightning_evalkit.metrics.points import MulticlassPrecisionAtFixedRecall as MulticlassPrecisionAtFixedRecall
from lightning_evalkit.metrics.points import MulticlassRecallAtFixedPrecision as MulticlassRecallAtFixedPrecision
from lightning_evalkit.metrics.points import MulticlassSensitivityAtSpecificity as MulticlassSensitivityAtSpecificity
from lightning_evalkit.metrics.points import MulticlassSpecificityAtSensitivity as MulticlassSpecificityAtSensitivity
from lightning_evalkit.metrics.points import MultilabelPrecisionAtFixedRecall as MultilabelPrecisionAtFixedRecall
from lightning_evalkit.metrics.points import MultilabelRecallAtFixedPrecision as MultilabelRecallAtFixedPrecision
from lightning_evalkit.metrics.points import MultilabelSensitivityAtSpecificity as MultilabelSensitivityAtSpecificity
from lightning_evalkit.metrics.points import MultilabelSpecificityAtSensitivity as MultilabelSpecificityAtSensitivity
from lightning_evalkit.metrics.sample_means import BinaryHingeLoss as BinaryHingeLoss
from lightning_evalkit.metrics.sample_means import MulticlassHingeLoss as MulticlassHingeLoss
from lightning_evalkit.metrics.sample_means import MultilabelCoverageError as MultilabelCoverageError
from lightning_evalkit.metrics.sample_means import (
    MultilabelRankingAveragePrecision as MultilabelRankingAveragePrecision,
)
from lightning_evalkit.metrics.sample_means import MultilabelRankingLoss as MultilabelRankingLoss

# The names imported above, without the modules they come from.
__all__ = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith(f"{__name__}.")]

if TYPE_CHECKING:
    from torchmetrics import Metric as Metric
    from torchmetrics import MetricCollection as MetricCollection
else:  # a type checker would take any name for one of these

    def __getattr__(name: str) -> Any:
        """Return a name of torchmetrics that is not about classification."""
        if name == "classification":
            return sys.modules[__name__]
        if name == "functional":  # by name only: no metric uses a function
            return import_module("lightning_evalkit.functional")
        if name in torchmetrics.__all__ or f"torchmetrics.{name}" in sys.modules or name == "__version__":
            return getattr(torchmetrics, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
