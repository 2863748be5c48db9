"""What is typed is read, named and tried before anything is made; what an error suggests is run and works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from src.arguments import is_readable, parsed, quoted, split, typed
from src.compose import check_overrides, compose, unknown_setting
from src.config import setting_names
from src.errors import ConfigError
from src.origins import COMMAND_LINE, plain_value
from src.sweeps.grid import grid
from src.usual_names import OTHERWISE, SAME
from tests.in_process import command

LIST_OF_HYDRA = "hydra/launcher=processes"


def refusal(*words: str, several: bool = False) -> str:
    def asked() -> None:
        check_overrides(words, several)
        compose(words)

    with pytest.raises(ConfigError) as caught:
        asked()
    said = str(caught.value)
    assert len(said.splitlines()) == 1
    return said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["++hydra.jobs.chdir=true"], "did you mean 'hydra.job.chdir'?"),
        (["+hydra.sweep.dirr=x"], "hydra.sweep.dir has no effect here: runs_dir=... group=... does that"),
        (["hydra.launcher.n_jobs=many", LIST_OF_HYDRA], "hydra.launcher.n_jobs=many: it should be a whole number"),
        (["hydra.launcher.n_jobs=0", LIST_OF_HYDRA], "hydra.launcher.n_jobs=0: it should be at least 1"),
        (["++hydra.launcher.njobs=3", LIST_OF_HYDRA], "did you mean 'hydra.launcher.n_jobs'?"),
        (["hydra.launcher.n_jobs=3", "hydra/launcher=local"], "hydra/launcher=processes hydra.launcher.n_jobs=3"),
        (["hydra.sweeper.n_trial=3", "hydra/sweeper=optuna"], "did you mean 'hydra.sweeper.n_trials'?"),
        (["hydra.foo=1"], "unknown setting 'hydra.foo'; hydra has "),
        (["hydra.mode=SOME"], "hydra.mode=SOME: it should be one of RUN, MULTIRUN"),
        (["hydra.job.chdir=perhaps"], "hydra.job.chdir=perhaps: it should be true or false"),
        (["hydra.run.dir=x"], "hydra.run.dir has no effect here; runs_dir=... group=... does that"),
        (["hydra.job.num=3"], "is written by Hydra itself; leave it out"),
        (["hydra.job.env_set.A=b"], "write" if False else "+hydra.job.env_set.A=b"),
        (["hydra/launcher=proceses"], "did you mean 'processes'?"),
        (["hydra/launcher=local,processes"], "hydra/launcher is one for a whole sweep"),
        (["hydra.launcher=3"], "hydra.launcher is a section of settings"),
        (["~hydra.job.chdir"], "cannot be left out"),
        (["hydra.sweeper.params.heads=1"], "a list such as heads=1,2 with -m does that"),
        (["hydra.launcher.setup=a", "hydra/launcher=slurm"], "it should be a list"),
    ],
)
def test_a_key_of_hydra_s_that_nobody_reads_or_a_wrong_value_is_refused(words: list[str], said: str) -> None:
    assert said in refusal(*words)


def test_what_hydra_and_its_plugins_read_passes() -> None:
    check_overrides(["hydra/launcher=joblib", "hydra.launcher.n_jobs=-1", "hydra.verbose=true"])
    check_overrides(["hydra/launcher=slurm", "hydra.launcher.mem=4G", "+hydra.launcher.additional_parameters.x=1"])
    check_overrides(["hydra/sweeper=optuna", "hydra.sweeper.n_trials=4", "hydra.sweeper.sampler.seed=1"])
    check_overrides(
        ["+hydra.job.env_set.A=b", "hydra.job.chdir=true", "hydra/launcher=ray", "hydra.launcher.num_cpus=2"]
    )


VALUES = {
    **dict.fromkeys(("model", "data", "training", "logger", "experiment", "sweeps"), None),
    "data": "copy",
    "training": "smoke",
    "logger": "disabled",
    "experiment": "copy",
    "sweeps": "smoke",
    "hydra/launcher": "local",
    "hydra/sweeper": "headcount",
    "hydra.launcher.n_jobs": "2",
    "attention": "latent",
    "attention_kernel": "math",
    "training.schedule": "constant",
    "training.dtype": "float32",
    "training.compile": "auto",
    "model.activation": "gelu",
    "model.norm": "rms",
    "model.positions": "rotary",
    "model.init": "torch",
    "model.tied_embeddings": "true",
    "device": "cpu",
    "resume": "never",
    "logger.mode": "offline",
    "logger.tags": "[a]",
    "logger.entity": "me",
    "data.path": "a.txt",
    "sample.prompt": "abc",
    "runs_dir": "r",
    "group": "g",
    "logger.project": "p",
    "latent_dim": "16",
    "model.dropout": "0.1",
    "data.validation_fraction": "0.1",
    "training.weight_decay": "0.1",
    "training.beta1": "0.9",
    "training.beta2": "0.9",
    "training.epochs": "1",
}
NEEDS = {
    "latent_dim": ["attention=latent"],
    "rope_dim": ["attention=latent", "model.positions=rotary"],
    "training.epochs": ["training.max_steps=null"],
    "data.validation_fraction": ["data=text_file"],
}


def tried(said: str, given: str, value: str, others: list[str]) -> None:
    """Runs the name that an error suggests, with the value that was given."""
    found = re.search(r"did you mean '([^']+)'\?(?: \(with (\S+)\))?", said)
    assert found, said
    words = [*others, *filter(None, [found[2]]), f"{found[1]}={value}"]
    check_overrides(words)
    if not found[1].startswith("hydra"):
        assert list(grid([*words]))


@pytest.mark.parametrize("name", sorted(SAME))
def test_the_field_s_usual_names_lead_to_ours_and_the_suggestion_works(name: str) -> None:
    ours = SAME[name]
    assert ours.startswith("hydra") or ours in {*setting_names(), "experiment", "sweeps"}
    value, others = VALUES.get(ours) or "8", NEEDS.get(ours, [])
    if name in setting_names():
        pytest.skip("is a name of ours too")
    said = str(unknown_setting(name, [*others, f"{name}={value}"], ["experiment", "sweeps", "model", "data"]))
    assert f"{ours!r}" in said
    tried(said, name, value, others)


@pytest.mark.parametrize("name", sorted(OTHERWISE))
def test_what_is_asked_in_another_way_here_comes_with_an_example_that_works(name: str) -> None:
    said = refusal(f"{name}=3")
    (example,) = re.findall(r"here it is (\S+=\S+) \(", said)
    compose([example])


@pytest.mark.parametrize(
    "word",
    [
        "++training.lr=0.1",
        "++optim.lrr=1e-3",
        "lr=0.1",
        "n_head=8",
        "num_heads=8",
        "block_size=8",
        "batch=8",
        "modl=nano",
    ],
)
def test_misspelt_and_foreign_names_lead_to_what_works_at_once(word: str) -> None:
    name, _, value = word.lstrip("+").partition("=")
    tried(refusal(word), name, value, [])


def test_no_name_is_suggested_that_would_fail() -> None:
    assert refusal("n_head=eight").endswith("Then heads='eight': it should be a whole number")
    assert "did you mean" not in refusal("zebra.quagga=1")
    assert "did you mean 'sweeps'?" in refusal("sweep=smoke")


UNREADABLE = [
    ("data.path=runs/lr=0.1/text.txt", "data.path", "runs/lr=0.1/text.txt"),
    ("data.path=a(b).txt", "data.path", "a(b).txt"),
    ("data.path=a{b}.txt", "data.path", "a{b}.txt"),
    ("data.path=x[1].txt", "data.path", "x[1].txt"),
    ("data.path=my file's.txt", "data.path", "my file's.txt"),
    ("data.path=Bücher/höhe.txt", "data.path", "Bücher/höhe.txt"),
    ("group=höhe", "group", "höhe"),
    ("data.path=日本.txt", "data.path", "日本.txt"),
    ("data.path=a!b,c.txt", "data.path", "a!b,c.txt"),
    ("data.path=~/x.txt", "data.path", "~/x.txt"),
    ("data.path=a#b.txt", "data.path", "a#b.txt"),
    ("data.path=cost$5,a.txt", "data.path", "cost$5,a.txt"),
    ("data.path=[ab.txt", "data.path", "[ab.txt"),
    ("sample.prompt='ROMEO", "sample.prompt", "ROMEO"),
    ('sample.prompt="ROMEO', "sample.prompt", "ROMEO"),
    ("sample.prompt=O'Brien", "sample.prompt", "O'Brien"),
    ("logger.tags=[a,b", "logger.tags", ["a", "b"]),
    ("heads =8", "heads", 8),
    ("heads==8", "heads", 8),
]


@pytest.mark.parametrize(("word", "name", "meant"), UNREADABLE, ids=[word for word, _, _ in UNREADABLE])
def test_a_word_that_hydra_cannot_read_comes_with_one_that_it_can(word: str, name: str, meant: object) -> None:
    said = refusal(word)
    assert said.startswith(f"{word} cannot be read: ") or "lists values" in said
    for raw in ("mismatched", "token", "Lexer", "EOF", "HYDRA", "grammar"):
        assert raw not in said
    written = re.split("write |quote the text: ", said)[-1]
    (suggestion,) = shlex.split(written)  # as a shell reads it
    value: object = compose([suggestion])
    for part in name.split("."):
        value = getattr(value, part)
    assert value == meant


@pytest.mark.parametrize(("word", "counts"), [("heads=1,,2", [1, 2]), ("heads=1,2,", [1, 2]), ("heads=,4", [4])])
def test_a_list_with_an_empty_element_comes_with_one_without(word: str, counts: list[int]) -> None:
    said = refusal(word, several=True)
    assert "an element of the list is empty" in said
    assert [config.heads for config in grid([said.rpartition("write ")[2]])] == counts


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["heads=glob(*)"], "heads=glob(*) lists values, and this is one run; add -m for a run of each"),
        (["group=a/b"], "it should be one folder's name: a letter"),
        (["device=gpu"], "it should be auto, cpu, mps, cuda, or a certain GPU such as cuda:0"),
        (["+heads=8"], "heads is there already; leave out the +: heads=8"),
        (["+model=small"], "a group is chosen without +: model=small"),
        (["model@x=nano"], "a group is chosen by its name alone: model=nano"),
        (["model=[nano,small]"], "model=[nano,small]: no such option"),
        (["heads=1,2"], "heads=1,2 lists values, and this is one run; add -m for a run of each"),
        (["data.path=a,b.txt"], "or quote the text: \"data.path='a,b.txt'\""),
        (["logger.tags=a,b"], 'or write one list: "logger.tags=[a,b]"'),
        (["training=1"], "training=1: no such option"),
        (["heads=${foo}"], "Interpolation key 'foo' not found"),
        (["model=3"], "model=3: no such option"),
        (["logger.project=3"], "in quotes it is: \"logger.project='3'\""),
        (["training.max_steps=1e3"], "written without a point or exponent: training.max_steps=1000"),
        (["training.threads=none"], "training.threads='none': it should be a whole number or 'auto'"),
    ],
)
def test_each_refusal_is_one_line_in_plain_words(words: list[str], said: str) -> None:
    found = refusal(*words)
    assert said in found
    assert not re.search(r"\^|\\d|\\w|pattern", found)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--heads=8"], "settings are written without dashes: heads=8"),
        (["--heads", "8"], "settings are written without dashes: heads=8"),
        (["heads", "8"], "'heads' has no '='; a setting is written as name=value: heads=8"),
        (["--cfg", "jobs"], "it should be job, hydra or all"),
        (["--config-dir", "x"], "--config-dir is not used here"),
    ],
)
def test_flags_that_are_none_are_refused_in_a_line(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        split(words)


@pytest.mark.parametrize(
    "value", ["a=b", "it's", 'say "x"', "5 $", "a\\b", "both ' and \"", "a\\", "${x}", "!", "a, b"]
)
def test_a_quoted_value_is_read_as_itself_by_hydra_and_by_the_shell(value: str) -> None:
    word = f"sample.prompt={quoted(value)}"
    assert is_readable(word)
    assert plain_value(parsed(word)) == value.replace("${", "\\${")
    assert shlex.split(typed(word)) == [word]


def test_commands_say_it_in_a_line_with_exit_code_2_and_make_nothing(tmp_path: Path) -> None:
    for words in (["data.path=a=b.txt"], ["++hydra.launcher.njobs=3"], ["heads=1,,2", "-m"], ["--heads=8"]):
        done = command("src.train", *words, here=tmp_path)
        assert done.returncode == 2, done
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) == 1
        assert done.stdout == ""
    for module in ("src.audit", "src.bench"):
        done = command(module, "heads=1,,2", here=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_group_chosen_on_the_command_line_wins_over_the_experiment() -> None:
    config = compose(["model=gpt2", "experiment=copy"])
    assert (config.model.name, config.model.d_model, config.heads, config.context_length) == ("gpt2", 768, 12, 1024)
    assert config.data.name == "copy"
    config = compose(["training=smoke", "experiment=copy", "training.batch_size=7"])
    smoke = compose(["training=smoke", "training.batch_size=7"])
    assert config.training == smoke.training
    assert (config.model.d_model, config.heads) == (64, 4)
    assert compose(["experiment=numpy_tutorial", "data=copy", "data.symbols=9"]).data.name == "copy"
    assert [c.model.d_model for c in grid(["sweeps=smoke", "model=mini,small", "heads=2"])] == [240, 384]


def test_each_value_knows_whether_a_file_or_the_command_line_gave_it(tmp_path: Path) -> None:
    found = compose(["experiment=copy", "model=mini", "heads=8", "data.symbols=9"]).origins
    assert {name: found[name] for name in ("heads", "data.symbols")} == dict.fromkeys(
        ("heads", "data.symbols"), COMMAND_LINE
    )
    assert found["model.d_model"] == "conf/model/mini.yaml"
    assert found["model.layers"] == "conf/model/nano.yaml"
    assert found["training.batch_size"] == "conf/experiment/copy.yaml"
    assert found["training.beta2"] == "conf/training/default.yaml"
    assert found["kv_heads"] == "conf/config.yaml"
    done = command("src.train", "--cfg", "job", "experiment=copy", "heads=8", here=tmp_path)
    assert "heads: 8  # command line\n" in done.stdout
    assert "  batch_size: 32  # conf/experiment/copy.yaml\n" in done.stdout
    swept = list(grid(["sweeps=smoke", "heads=2,4"]))
    assert {config.origins["heads"] for config in swept} == {COMMAND_LINE}


def test_a_pattern_over_numbers_is_refused_in_a_sweep_too() -> None:
    with pytest.raises(ConfigError, match=r"glob\(\) is for the options of a group; list the values of heads"):
        check_overrides(["heads=glob(*)"], several=True)
