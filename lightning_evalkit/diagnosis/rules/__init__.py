"""The rules of a diagnosis, one function each; importing this package fills their table."""

from lightning_evalkit.diagnosis.rules import against as against
from lightning_evalkit.diagnosis.rules import calibration as calibration
from lightning_evalkit.diagnosis.rules import classes as classes
from lightning_evalkit.diagnosis.rules import failures as failures
from lightning_evalkit.diagnosis.rules import logging as logging
from lightning_evalkit.diagnosis.rules import majority as majority
from lightning_evalkit.diagnosis.rules import scores as scores
from lightning_evalkit.diagnosis.rules import selection as selection
from lightning_evalkit.diagnosis.rules import sharing as sharing
from lightning_evalkit.diagnosis.rules import structure as structure
from lightning_evalkit.diagnosis.rules import tables as tables
from lightning_evalkit.diagnosis.rules.majority import OF_THRESHOLDS as OF_THRESHOLDS
from lightning_evalkit.diagnosis.rules.table import RULES as RULES
from lightning_evalkit.diagnosis.rules.table import Power as Power
from lightning_evalkit.diagnosis.rules.table import Rule as Rule
from lightning_evalkit.diagnosis.rules.table import rules_about as rules_about
