"""Every name of another package that this one uses without it being documented, listed once.

``lightning.pytorch`` stands for both of Lightning's packages.
"""

NAMES: dict[str, tuple[str, ...]] = {
    # Read and called in trainer.py.
    "lightning.pytorch.trainer.trainer:Trainer": ("_results", "_evaluation_loop"),
    "lightning.pytorch.trainer.connectors.logger_connector.result:_ResultCollection": (
        "_forked_name",
        "update_metrics",
    ),
    "lightning.pytorch.trainer.connectors.logger_connector.result:_ResultMetric": ("has_reset", "meta"),
    "lightning.pytorch.trainer.connectors.checkpoint_connector:_CheckpointConnector": (
        "resume_start",
        "restore_model",
        "restore_callbacks",
        "restore_training_state",
    ),
    "lightning.pytorch.loops.fit_loop:_FitLoop": (
        "_combined_loader",
        "_data_fetcher",
        "epoch_progress",
        "epoch_loop",
    ),
    "lightning.pytorch.loops.training_epoch_loop:_TrainingEpochLoop": (
        "_batches_that_stepped",
        "_should_check_val_fx",
        "_should_accumulate",
        "batch_progress",
        "batch_idx",
        "val_loop",
        "restarting",
    ),
    "lightning.pytorch.loops.evaluation_loop:_EvaluationLoop": (
        "_combined_loader",
        "_data_fetcher",
        "_has_run",
        "_is_sequential",
        "batch_progress",
        "restarted_mid_evaluation",
    ),
    "lightning.pytorch.loops.fetchers": ("_DataLoaderIterDataFetcher",),
    "lightning.pytorch.loops.fetchers:_DataFetcher": ("fetched",),
    "lightning.pytorch.strategies.strategy:Strategy": (
        "barrier",
        "broadcast",
        "reduce_boolean_decision",
        "process_dataloader",
        "save_checkpoint",
    ),
    "lightning.pytorch.overrides.distributed": (
        "UnrepeatedDistributedSampler",
        "UnrepeatedDistributedSamplerWrapper",
    ),
    "lightning.pytorch.core.mixins.hparams_mixin": ("_given_hyperparameters",),
    "lightning.pytorch.core.mixins.hparams_mixin:HyperparametersMixin": ("_log_hyperparams",),
    "lightning.pytorch.loggers.tensorboard:TensorBoardLogger": ("_prefix", "_default_hp_metric", "LOGGER_JOIN_CHAR"),
    "lightning.pytorch.callbacks:ModelCheckpoint": ("_last_global_step_saved", "_last_checkpoint_saved"),
    # Called or overridden in callbacks/ and cli/.
    "lightning.pytorch.callbacks:Callback": ("_generate_state_key",),
    "lightning.pytorch.callbacks:RichProgressBar": ("_init_progress", "_metric_component"),
    "lightning.pytorch.cli:LightningCLI": (
        "_instantiate_trainer",
        "_parse_ckpt_path",
        "_prepare_subcommand_parser",
        "_run_subcommand",
        "_set_seed",
    ),
    # State of metrics: state/held.py, state/tally.py, evaluation/entry.py, callbacks/exact_distributed/.
    "torchmetrics:Metric": (
        "_apply",
        "_computed",
        "_defaults",
        "_device",
        "_forward_cache",
        "_is_synced",
        "_load_from_state_dict",
        "_persistent",
        "_plot",
        "_reductions",
        "_sync_dist",
        "_update_count",
        "_wrap_compute",
        "_wrap_update",
    ),
    "torchmetrics:MetricCollection": ("_groups", "_groups_checked", "_set_name", "_state_is_copy"),
    # Help and messages of the command line.
    "jsonargparse:ArgumentParser": ("_action_groups", "_actions"),
    "argparse:_ArgumentGroup": ("_group_actions",),
    # torch and Python.
    "torch.nn:Module": ("_buffers", "_modules"),
    "torch.distributed.distributed_c10d": ("_get_default_store",),
    "torch.utils.tensorboard:SummaryWriter": ("_get_file_writer",),
    "threading": ("_shutdown",),
    "atexit": ("_run_exitfuncs",),
}
"""Names of a module, or of a class of it: methods, properties, and fields that the class sets."""

KEYS = {"lightning.pytorch.cli": ("_class_path",), "lightning.pytorch.core.saving": ("_instantiator",)}
"""Keys of hyperparameters in a checkpoint, by a module that knows them."""

SINCE = {"_parse_ckpt_path": ("lightning", "2.5.5")}
"""Names that the oldest supported release does not have yet, where nothing is missed."""

DOCUMENTED = ("_asdict", "_exit", "_fields", "_replace")
"""Names of Python with an underscore that are no secret."""

DERIVED = (
    "torch.nn:Module",
    "torchmetrics:Metric",
    "torchmetrics:MetricCollection",
    "lightning.pytorch:Callback",
    "lightning.pytorch:LightningDataModule",
    "lightning.pytorch:LightningModule",
    "lightning.pytorch.callbacks:BasePredictionWriter",
    "lightning.pytorch.callbacks:RichProgressBar",
    "lightning.pytorch.cli:LightningArgumentParser",
    "lightning.pytorch.cli:LightningCLI",
    "jsonargparse:DefaultHelpFormatter",
)
"""Classes that classes of this package derive from: an attribute of ``self`` may be theirs."""
