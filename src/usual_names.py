"""What a setting is called elsewhere, and what it is called here: nanoGPT, transformers, litgpt and everyday speech."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher

SAME: Mapping[str, str] = {
    name: ours
    for ours, names in {
        "heads": "n_head n_heads nhead nheads num_heads num_head num_attention_heads attention_heads n_attn_heads",
        "kv_heads": "n_kv_head n_kv_heads kv num_kv_heads num_key_value_heads n_query_groups num_query_groups "
        "n_local_heads kv_head",
        "head_dim": "head_size d_head dim_head headdim d_k d_kv",
        "context_length": "block_size context ctx ctx_len context_len context_size context_window seq_len seq_length "
        "sequence_length max_seq_len max_seq_length max_length max_position_embeddings n_ctx n_positions window",
        "latent_dim": "kv_lora_rank kv_latent_dim d_latent",
        "rope_dim": "qk_rope_head_dim rope_head_dim",
        "attention_kernel": "attn_implementation kernel sdpa_backend attn_kernel",
        "attention": "attn attention_type attn_type",
        "model.d_model": "n_embd hidden_size dim embed_dim embedding_dim width hidden_dim d_embed n_embed emb_dim",
        "model.layers": "n_layer n_layers num_layers num_hidden_layers depth num_blocks n_blocks",
        "model.ffn_ratio": "mlp_ratio ffn_mult mlp_mult expansion ff_mult",
        "model.activation": "hidden_act activation_function act act_fn",
        "model.norm": "norm_type normalization norm_class_name",
        "model.positions": "pos_emb position_embedding position_embedding_type pos_encoding positional",
        "model.tied_embeddings": "tie_word_embeddings weight_tying tie_weights tied",
        "model.dropout": "drop resid_pdrop attn_pdrop embd_pdrop attention_dropout hidden_dropout dropout_rate p_drop",
        "model.init": "initialization init_scheme weight_init",
        "training.learning_rate": "lr eta max_lr peak_lr base_lr step_size",
        "training.batch_size": "batch bs bsz global_batch_size per_device_train_batch_size train_batch_size",
        "training.micro_batch_size": "mbs microbatch micro_batch",
        "training.max_steps": "steps iters max_iters num_steps n_steps iterations num_iterations total_steps "
        "train_steps max_iterations num_train_steps",
        "training.epochs": "num_epochs n_epochs max_epochs num_train_epochs epoch",
        "training.warmup_steps": "warmup warmup_iters lr_warmup_steps num_warmup_steps lr_warmup_iters",
        "training.schedule": "lr_scheduler lr_scheduler_type scheduler lr_schedule",
        "training.weight_decay": "wd decay adamw_weight_decay",
        "training.grad_clip": "clip max_grad_norm max_norm gradient_clip_val grad_norm_clip clip_grad gradient_clip",
        "training.beta1": "adam_beta1",
        "training.beta2": "adam_beta2",
        "training.dtype": "precision torch_dtype mixed_precision amp",
        "training.compile": "torch_compile compiled",
        "training.threads": "num_threads n_threads cpu_threads omp_num_threads",
        "training.eval_interval": "eval_steps eval_every val_interval val_every val_check_interval evaluate_every",
        "training.eval_batch_size": "per_device_eval_batch_size val_batch_size",
        "training.log_interval": "logging_steps log_every log_every_n_steps log_freq",
        "training.checkpoint_interval": "save_steps save_every save_interval ckpt_interval checkpoint_every",
        "data": "dataset corpus",
        "data.path": "data_path file text_file data_file input_file data_dir dataset_path",
        "data.validation_fraction": "val_fraction val_split validation_split valid_fraction",
        "sample.prompt": "start prefix",
        "sample.tokens": "max_new_tokens num_tokens n_tokens",
        "sample.temperature": "temp",
        "sample.top_k": "topk k",
        "seed": "random_seed rng_seed manual_seed random_state",
        "device": "gpu accelerator cuda_device",
        "runs_dir": "out_dir output_dir out save_dir log_dir results_dir",
        "group": "run_name exp_name experiment_name wandb_run_name sweep_name",
        "resume": "resume_from_checkpoint restart",
        "logger.project": "wandb_project",
        "logger.entity": "wandb_entity team",
        "logger.tags": "wandb_tags tag",
        "logger.mode": "wandb_mode",
        "logger": "wandb log_to report_to",
        "experiment": "exp recipe",
        "sweeps": "sweep grid",
        "training": "train trainer",
        "hydra/launcher": "launcher",
        "hydra/sweeper": "sweeper",
        "hydra.launcher.n_jobs": "n_jobs jobs workers num_workers parallel",
    }.items()
    for name in names.split()
}
"""Another's name for the same thing, in the same unit: the value can stand."""

OTHERWISE: Mapping[str, tuple[str, str]] = {
    "intermediate_size": ("model.ffn_ratio=4.0", "the feed-forward width over model.d_model"),
    "ffn_dim": ("model.ffn_ratio=4.0", "the feed-forward width over model.d_model"),
    "d_ff": ("model.ffn_ratio=4.0", "the feed-forward width over model.d_model"),
    "ffn_width": ("model.ffn_ratio=4.0", "the feed-forward width over model.d_model"),
    "n_inner": ("model.ffn_ratio=4.0", "the feed-forward width over model.d_model"),
    "min_lr": ("training.final_learning_rate_ratio=0.1", "the last rate over the highest"),
    "min_learning_rate": ("training.final_learning_rate_ratio=0.1", "the last rate over the highest"),
    "warmup_ratio": ("training.warmup_steps=100", "steps, not a share"),
    "decay_lr": ("training.schedule=cosine", "or constant"),
    "lr_decay_iters": ("training.max_steps=2000", "the schedule ends with the training"),
    "gradient_accumulation_steps": ("training.micro_batch_size=4", "sequences at once, of training.batch_size"),
    "grad_accum": ("training.micro_batch_size=4", "sequences at once, of training.batch_size"),
    "init_from": ("resume=auto", "or never, for a new folder"),
    "wandb_log": ("logger.mode=online", "or offline, disabled"),
    "use_wandb": ("logger.mode=online", "or offline, disabled"),
    "bf16": ("training.dtype=bfloat16", "or auto, float32, float16, float64"),
    "fp16": ("training.dtype=float16", "or auto, float32, bfloat16, float64"),
    "use_flash": ("attention_kernel=flash", "or auto, fused, math, folded, repeat"),
    "flash": ("attention_kernel=flash", "or auto, fused, math, folded, repeat"),
    "rotary_percentage": ("model.positions=rotary", "or learned, none"),
    "rope": ("model.positions=rotary", "or learned, none"),
    "use_rope": ("model.positions=rotary", "or learned, none"),
    "mqa": ("kv_heads=1", "one key/value head for all"),
    "gqa": ("kv_heads=2", "as many key/value heads as there are groups"),
    "mla": ("attention=latent", "with latent_dim"),
    "cuda": ("device=cuda", "or auto, cpu, mps, cuda:0"),
    "cpu": ("device=cpu", "or auto, cuda, mps"),
    "eval_iters": ("training.eval_stride=64", "the whole validation split is read, in steps of eval_stride tokens"),
    "vocab_size": ("data=shakespeare", "the vocabulary is that of the data"),
    "optimizer": ("training.beta1=0.9", "it is AdamW, with beta1, beta2 and weight_decay"),
    "optim": ("training.beta1=0.9", "it is AdamW, with beta1, beta2 and weight_decay"),
}
"""Another's name for what is asked in another way here: an example of ours, and what it means."""

_CUTOFF = 0.6


def near(name: str, known: Iterable[str]) -> Iterator[str]:
    """Settings that `name` may have meant, the likeliest first: by another's name for it, or by spelling.

    >>> list(near("n_head", ["heads", "seed"]))[0]
    'heads'
    >>> list(near("++optim.lrr".lstrip("+"), ["training.learning_rate", "seed"]))[0]
    'training.learning_rate'
    """
    known, leaf = list(known), _leaf(name).lower().replace("-", "_")
    scored = {ours: 2.0 for other, ours in SAME.items() if other == leaf}
    scored |= {ours: 1.9 for ours in known if _leaf(ours) == leaf and ours != name}
    for ours in known:
        likeness = max(_ratio(name, ours), _ratio(leaf, _leaf(ours)) - 0.01)
        scored[ours] = max(scored.get(ours, 0.0), likeness)
    for other, ours in SAME.items():
        if len(other) > 1:
            scored[ours] = max(scored.get(ours, 0.0), _ratio(leaf, other) - 0.02)
    ranked = sorted(scored, key=lambda ours: -scored[ours])
    yield from (ours for ours in ranked if scored[ours] >= _CUTOFF and ours != name)


def _leaf(name: str) -> str:
    return name.rpartition(".")[2]


def _ratio(one: str, other: str) -> float:
    matcher = SequenceMatcher(None, one, other)
    return matcher.ratio() if matcher.real_quick_ratio() >= _CUTOFF else 0.0
