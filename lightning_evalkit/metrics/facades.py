"""``Accuracy(task="binary")`` and its relatives: one name for the three tasks, with torchmetrics' arguments.

>>> Accuracy(task="multiclass", num_classes=3).average
'micro'
>>> isinstance(Accuracy(task="binary"), Accuracy)
True
"""

from typing import NoReturn

from lightning_evalkit.metrics import binary, calibration, curves, multiclass, multilabel, points, sample_means
from lightning_evalkit.metrics.facade import Facade
from lightning_evalkit.statistics.arguments import AVERAGED, COUNTED, HINGED, LAST, NUMBERS, SCORED

# ---- counts


class Accuracy(
    Facade[binary.BinaryAccuracy, multiclass.MulticlassAccuracy, multilabel.MultilabelAccuracy], arguments=AVERAGED
):
    """The share of correct predictions."""


class Precision(
    Facade[binary.BinaryPrecision, multiclass.MulticlassPrecision, multilabel.MultilabelPrecision], arguments=AVERAGED
):
    """The share of true positives among predicted positives."""


class Recall(Facade[binary.BinaryRecall, multiclass.MulticlassRecall, multilabel.MultilabelRecall], arguments=AVERAGED):
    """The share of true positives among positives."""


class Specificity(
    Facade[binary.BinarySpecificity, multiclass.MulticlassSpecificity, multilabel.MultilabelSpecificity],
    arguments=AVERAGED,
):
    """The share of true negatives among negatives."""


class NegativePredictiveValue(
    Facade[
        binary.BinaryNegativePredictiveValue,
        multiclass.MulticlassNegativePredictiveValue,
        multilabel.MultilabelNegativePredictiveValue,
    ],
    arguments=AVERAGED,
):
    """The share of true negatives among predicted negatives."""


class HammingDistance(
    Facade[binary.BinaryHammingDistance, multiclass.MulticlassHammingDistance, multilabel.MultilabelHammingDistance],
    arguments=AVERAGED,
):
    """The share of wrong predictions."""


class StatScores(
    Facade[binary.BinaryStatScores, multiclass.MulticlassStatScores, multilabel.MultilabelStatScores],
    arguments=AVERAGED,
):
    """The counts themselves: tp, fp, tn, fn, support."""


class F1Score(
    Facade[binary.BinaryF1Score, multiclass.MulticlassF1Score, multilabel.MultilabelF1Score],
    arguments=(*AVERAGED, "zero_division"),
):
    """The harmonic mean of precision and recall."""


class FBetaScore(
    Facade[binary.BinaryFBetaScore, multiclass.MulticlassFBetaScore, multilabel.MultilabelFBetaScore],
    arguments=("beta", *AVERAGED, "zero_division"),
):
    """The weighted harmonic mean of precision and recall; recall weighs ``beta`` times as much."""


class JaccardIndex(
    Facade[binary.BinaryJaccardIndex, multiclass.MulticlassJaccardIndex, multilabel.MultilabelJaccardIndex],
    arguments=(*COUNTED, "average", *LAST),
    average="macro",
):
    """The share of true positives among samples that are positive or predicted positive."""


class MatthewsCorrCoef(
    Facade[binary.BinaryMatthewsCorrCoef, multiclass.MulticlassMatthewsCorrCoef, multilabel.MultilabelMatthewsCorrCoef],
    arguments=(*COUNTED, *LAST),
):
    """Matthews correlation."""


class ConfusionMatrix(
    Facade[binary.BinaryConfusionMatrix, multiclass.MulticlassConfusionMatrix, multilabel.MultilabelConfusionMatrix],
    arguments=(*COUNTED, "normalize", *LAST),
):
    """Targets in rows and predictions in columns."""


class CohenKappa(
    Facade[binary.BinaryCohenKappa, multiclass.MulticlassCohenKappa, NoReturn],
    arguments=("threshold", "num_classes", "weights", *LAST),
):
    """Agreement beyond chance."""


class ExactMatch(
    Facade[NoReturn, multiclass.MulticlassExactMatch, multilabel.MultilabelExactMatch],
    arguments=(*COUNTED, "multidim_average", *LAST),
):
    """The share of samples that are predicted rightly in every element or label."""


# ---- scores


class ROC(Facade[curves.BinaryROC, curves.MulticlassROC, curves.MultilabelROC], arguments=(*SCORED, *LAST)):
    """The ROC curve."""


class PrecisionRecallCurve(
    Facade[
        curves.BinaryPrecisionRecallCurve, curves.MulticlassPrecisionRecallCurve, curves.MultilabelPrecisionRecallCurve
    ],
    arguments=(*SCORED, *LAST),
):
    """The precision-recall curve."""


class AUROC(
    Facade[curves.BinaryAUROC, curves.MulticlassAUROC, curves.MultilabelAUROC],
    arguments=(*SCORED, "average", "max_fpr", *LAST),
    average="macro",
):
    """The area under the ROC curve."""


class AveragePrecision(
    Facade[curves.BinaryAveragePrecision, curves.MulticlassAveragePrecision, curves.MultilabelAveragePrecision],
    arguments=(*SCORED, "average", *LAST),
    average="macro",
):
    """The area under the precision-recall curve, in steps."""


class EER(
    Facade[curves.BinaryEER, curves.MulticlassEER, curves.MultilabelEER],
    arguments=(*SCORED, "average", *LAST),
    average=None,
):
    """The equal error rate."""


class RecallAtFixedPrecision(
    Facade[
        points.BinaryRecallAtFixedPrecision,
        points.MulticlassRecallAtFixedPrecision,
        points.MultilabelRecallAtFixedPrecision,
    ],
    arguments=("min_precision", *SCORED, *LAST),
):
    """The largest recall with at least ``min_precision``, and its threshold."""


class PrecisionAtFixedRecall(
    Facade[
        points.BinaryPrecisionAtFixedRecall,
        points.MulticlassPrecisionAtFixedRecall,
        points.MultilabelPrecisionAtFixedRecall,
    ],
    arguments=("min_recall", *SCORED, *LAST),
):
    """The largest precision with at least ``min_recall``, and its threshold."""


class SensitivityAtSpecificity(
    Facade[
        points.BinarySensitivityAtSpecificity,
        points.MulticlassSensitivityAtSpecificity,
        points.MultilabelSensitivityAtSpecificity,
    ],
    arguments=("min_specificity", *SCORED, *LAST),
):
    """The largest sensitivity with at least ``min_specificity``, and its threshold."""


class SpecificityAtSensitivity(
    Facade[
        points.BinarySpecificityAtSensitivity,
        points.MulticlassSpecificityAtSensitivity,
        points.MultilabelSpecificityAtSensitivity,
    ],
    arguments=("min_sensitivity", *SCORED, *LAST),
):
    """The largest specificity with at least ``min_sensitivity``, and its threshold."""


class CalibrationError(
    Facade[calibration.BinaryCalibrationError, calibration.MulticlassCalibrationError, NoReturn],
    arguments=("n_bins", "norm", "num_classes", *LAST),
):
    """The gap between mean confidence and share of hits over bins."""


class LogAUC(
    Facade[curves.BinaryLogAUC, curves.MulticlassLogAUC, curves.MultilabelLogAUC],
    arguments=("thresholds", "fpr_range", *NUMBERS, *LAST),
):
    """The area under the ROC curve over the logarithm of the false-positive rate."""


class HingeLoss(Facade[sample_means.BinaryHingeLoss, sample_means.MulticlassHingeLoss, NoReturn], arguments=HINGED):
    """The mean of max(0, 1 - margin)."""
