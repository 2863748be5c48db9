"""One run from its configuration to its record. Builds, loops, routes and closes; the work is done elsewhere."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from src.config import Config
from src.costs import Costs
from src.errors import Diverged, RunError, Stopped
from src.metrics import METRICS
from src.model.gpt import GPT
from src.model.kernel_report import check_kernel
from src.record import CONFIG, LOG, SAMPLE, Record, Status, keep_rows_until, settings_text, write_atomically
from src.training.build import build
from src.training.checkpoint import checkpoint_content, continue_text, load_checkpoint, restore, save_checkpoint
from src.training.environment import code_identity, environment
from src.training.events import Ended, Event, Sampled, Sink
from src.training.folder import RunFolder, claim, new_record
from src.training.loop import Training, training_events
from src.training.measure import measure_decoding, peak_memory_bytes, reset_peak_memory, utilisation
from src.training.plan import Result, RunPlan
from src.training.runtime import Runtime, choose_runtime, device_name, thread_count
from src.training.stop import STATUS_OF, StopFlag

logger = logging.getLogger("headcount")
OpenSinks = Callable[[Config, Path, int], Sequence[Sink]]


def run(
    plan: RunPlan,
    open_sinks: OpenSinks,
    stop: StopFlag,
    clock: Callable[[], float] = time.perf_counter,
) -> Result:
    """Runs what is missing of a run and leaves its true ending in its record.

    An exception of the job is recorded, not raised; a device, dtype or kernel that is not there raises ConfigError
    before a folder is made, a folder that cannot be held or read RunError.
    """
    config = plan.config
    runtime = choose_runtime(config, plan.geometry, plan.data.io_spec)
    if config.attention_kernel != "auto":
        check_kernel(config.attention_kernel, runtime.device, runtime.torch_dtype, plan.geometry, config.model.dropout)
    folder = claim(plan.parent, plan.run_id, config.resume)
    try:
        if folder.previous is not None and folder.previous.status == "finished":
            return Result(folder.previous, folder.path, was_done=True)
        with thread_count(runtime.threads), _log_file(folder.path):
            return _run_segment(plan, runtime, folder, open_sinks, stop, clock)
    finally:
        folder.release()


def _run_segment(
    plan: RunPlan,
    runtime: Runtime,
    folder: RunFolder,
    open_sinks: OpenSinks,
    stop: StopFlag,
    clock: Callable[[], float],
) -> Result:
    checkpoint = load_checkpoint(folder.path)
    from_step = checkpoint["state"]["step"] if checkpoint else 0
    costs = Costs.of(plan.geometry, plan.data.io_spec, runtime.dtype)
    record = _running_record(plan, runtime, costs, folder, from_step)
    record.write(folder.path)
    write_atomically(folder.path / CONFIG, settings_text(plan.config.model_dump(), plan.config.origins))
    _log_start(record, runtime)
    reset_peak_memory(runtime.device)
    sinks: list[Sink] = []
    error: BaseException | None = None
    try:
        keep_rows_until(folder.path, from_step)
        sinks.extend(open_sinks(plan.config, folder.path, len(record.segments)))
        training = build(plan, runtime, clock)
        record.environment.update(training.found)
        if checkpoint is not None:
            restore(training, checkpoint)
            checkpoint = None  # its tensors are copied: their memory is training's
        for event in _events(training, costs, folder.path, record, stop, clock):
            for sink in sinks:
                sink.write(event)
    except (Exception, Stopped, KeyboardInterrupt, SystemExit) as caught:
        error = caught
    return _end(folder.path, record, sinks, error)


def _events(
    training: Training, costs: Costs, folder: Path, record: Record, stop: StopFlag, clock: Callable[[], float]
) -> Iterator[Event]:
    """Trains, measures and samples; the numbers of the run go into its record's summary, whatever its ending."""
    plan, runtime, summary = training.plan, training.runtime, record.summary

    def save() -> Path:
        return save_checkpoint(folder, checkpoint_content(training))

    try:
        yield from training_events(training, len(record.segments), stop, save)
    except Stopped:
        save()
        raise
    finally:
        summary.update(_training_summary(training, costs))
    model = training.model.eval()
    if training.diagnostics is not None:
        summary["heads/ablatable"] = training.diagnostics.ablatable(model, runtime)
    if isinstance(model, GPT):
        yield from measure_decoding(model, runtime, plan.config.measurement, clock, stop, summary)
    summary["memory/peak_bytes"] = peak_memory_bytes(runtime.device)
    if isinstance(model, GPT):
        yield from _sample(plan, runtime, folder, model, training.state.step)


def _training_summary(training: Training, costs: Costs) -> dict[str, Any]:
    state, timed, runtime = training.state, training.stopwatch.total, training.runtime
    mfu, reason = utilisation(
        timed.tokens_per_second, costs.flops_per_token, device_name(runtime.device), runtime.dtype
    )
    if reason is not None:
        logger.info("no train/mfu: %s", reason)
    loss_floor = training.windows.loss_floor()
    return {
        **state.last,
        **{name: value for name, value in state.heads.items() if name in METRICS},
        **({} if loss_floor is None else {"val/loss_optimum": loss_floor}),
        "val/loss_best": state.best_loss,
        "val/loss_best_step": state.best_step,
        "train/tokens": state.tokens,
        "train/tokens_per_second": timed.tokens_per_second,
        "train/timed_steps": timed.steps,
        "train/timed_seconds": timed.seconds,
        "train/mfu": mfu,
        "cost/parameters": costs.parameters,
        "cost/attention_parameters": costs.attention_parameters,
        "cost/flops_per_token": costs.flops_per_token,
    }


def _sample(plan: RunPlan, runtime: Runtime, folder: Path, model: GPT, step: int) -> Iterator[Event]:
    config, vocabulary = plan.config, plan.data.vocabulary
    if not config.sample.tokens or plan.data.has_answers:  # a task's tokens are no text to read
        return
    assert vocabulary is not None, "tokens of no task come from a vocabulary"
    prompt, text = continue_text(model, vocabulary, config.sample, config.seed, runtime, replace_unseen=True)
    write_atomically(folder / SAMPLE, prompt + text + "\n")
    yield Sampled(step, prompt, text)


def _end(folder: Path, record: Record, sinks: Sequence[Sink], error: BaseException | None) -> Result:
    status = status_of(error)
    if status in ("failed", "oom", "diverged"):
        logger.error("the run ended as %s", status, exc_info=error)
    elif error is not None:
        logger.info("the run ended as %s: %s", status, error)
    record = record.ended(status, record.summary, error)
    # On disk before the sinks hear of it: what they do with the news cannot lose it.
    record.write(folder)
    for sink in sinks:
        try:
            sink.write(Ended(record, folder))
            sink.close()
        except Exception:
            logger.exception("a sink failed at the end; the local record is complete")
    mirrored = [outcome for sink in sinks if (outcome := getattr(sink, "outcome", None)) is not None]
    if mirrored:
        record.environment["logger"] = mirrored[0]
        record.write(folder)
    return Result(record, folder, error=error)


def status_of(error: BaseException | None) -> Status:
    """The ending that an exception means.

    >>> status_of(None), status_of(MemoryError()), status_of(ValueError()), status_of(KeyboardInterrupt())
    ('finished', 'oom', 'failed', 'interrupted')
    """
    if error is None:
        return "finished"
    if isinstance(error, Stopped):
        return STATUS_OF.get(error.signal_number, "preempted")
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, Diverged):
        return "diverged"
    return "oom" if _is_out_of_memory(error) else "failed"


def _is_out_of_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # The CPU allocator raises a plain RuntimeError.
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def _running_record(plan: RunPlan, runtime: Runtime, costs: Costs, folder: RunFolder, from_step: int) -> Record:
    previous = folder.previous
    code, where = code_identity(), environment()
    if previous is not None and previous.code != code:
        logger.warning("this run began with other code (%s); it goes on with %s", previous.code, code)
    if where["submitted_code"] is not None:
        logger.warning("this run was submitted with other code (%s) than now runs (%s)", where["submitted_code"], code)
    known = {} if previous is None else {"started_at": previous.started_at, "segments": previous.segments}
    record = new_record(
        folder.run_id,
        plan.config_hash,
        plan.config.model_dump(),
        data=plan.data.facts,
        environment={**where, **runtime.as_dict()},
        geometry=plan.geometry.as_dict(),
        costs=costs.as_dict(),
        origins=plan.config.origins,
        parent=None if plan.start is None else plan.start.parent,
        **known,
    )
    return record.begun(from_step, where["host"])


def _log_start(record: Record, runtime: Runtime) -> None:
    segment = record.segments[-1]
    logger.info("segment %d of %s from step %d", segment["segment"], record.run_id, segment["from_step"])
    for note in runtime.notes:
        logger.info(note)


@contextlib.contextmanager
def _log_file(folder: Path) -> Iterator[None]:
    """The log of a run, while it runs; the handler is taken away after it, whatever happened."""
    try:
        handler = logging.FileHandler(folder / LOG, encoding="utf-8")
    except OSError as error:
        raise RunError(f"{folder / LOG} cannot be written: {error}") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
