"""Tests what holds for every verb: how it is found, how it fails, how it speaks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import Result

from gateway import __version__
from gateway.cli import VERBS, main
from gateway.cli.console import CommandError, Exit, UnavailableError
from gateway.config import ConfigError, Fault
from tests.unit.cli.running import run, said

ARGUMENTS = {
    "keys revoke": ("9a1f4c3e-1111-4222-8333-000000000001", "00000001"),
    "keys rotate": ("gateway",),
    "peers kick": ("edge-0.1.1",),
    "peers show": ("edge-0.1.1",),
    "rejected redrive": ("--all",),
    "rejected show": ("0-0-0",),
    "rules test": ("-",),
}
"""What a verb wants before it looks for its configuration."""
HEAVY = ("pyspark", "kafka", "pydantic", "aioquic", "slixmpp", "numpy", "lxml")


class TestVerbs:
    def test_verbs_are_listed_with_what_they_do(self) -> None:
        result = run("--help")
        assert result.exit_code == Exit.OK
        assert "check a configuration: every fault, with its place" in result.stdout

    def test_listing_them_imports_none_of_them(self) -> None:
        loaded = imported_by("--help")
        assert not loaded & {*HEAVY, "gateway.cli.validate", "gateway.config"}

    def test_completing_them_imports_none_of_them(self) -> None:
        loaded = imported_by(_MESHGATE_COMPLETE="bash_complete", COMP_WORDS="meshgate va", COMP_CWORD="1")
        assert not loaded & {*HEAVY, "gateway.cli.validate", "gateway.config"}

    def test_an_edge_is_up_again_without_importing_what_only_others_need(self) -> None:
        loaded = imported_by("edge", "--help")
        assert "gateway.edge.runtime" in loaded
        assert not loaded & {"kafka", "pyspark", "gateway.client"}

    def test_a_verb_without_a_module_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(VERBS, "fly", "not written yet")
        assert "fly" not in run("--help").stdout
        assert run("fly").stderr == "meshgate: there is no verb fly (see meshgate --help)\n"

    @pytest.mark.parametrize("group", ["keys", "topics", "context", "peers", "rejected", "rules"])
    def test_a_group_says_what_each_of_its_verbs_does_to_the_end(self, group: str) -> None:
        assert "..." not in run(group, "--help").stdout.partition("Commands:")[2]

    def test_each_verb_that_is_there_has_a_command_that_explains_itself(self) -> None:
        code = (
            "import click; from gateway.cli import main\n"
            "context = click.Context(main)\n"
            "for verb in main.list_commands(context):\n"
            "    command = main.get_command(context, verb)\n"
            "    assert isinstance(command, click.Command) and command.help, verb\n"
            "    print(verb)"
        )
        assert alone("-c", code).stdout.split() == main.list_commands(click.Context(main))

    @pytest.mark.parametrize(("typed", "verb"), [("vlidate", "validate"), ("Up", "up"), ("DOWN", "down")])
    def test_a_misspelt_verb_gets_a_hint(self, typed: str, verb: str) -> None:
        result = run(typed)
        assert result.exit_code == Exit.USAGE
        assert result.stderr == f"meshgate: there is no verb {typed}: did you mean {verb}? (see meshgate --help)\n"

    def test_choices_that_are_left_open_are_told_in_one_line(self) -> None:
        result = run("completion")
        assert result.exit_code == Exit.USAGE
        assert result.stderr.endswith("Choose from: bash, zsh, fish (see meshgate completion --help)\n")
        assert result.stderr.count("\n") == 1

    def test_no_verb_at_all_shows_the_help(self) -> None:
        result = run()
        assert result.exit_code == Exit.USAGE
        assert "Verbs:" in result.stderr

    def test_the_version_is_told(self) -> None:
        assert run("--version").stdout == f"meshgate {__version__}\n"


def alone(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own, for this one has imported everything."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    return done


def imported_by(*arguments: str, **environment: str) -> set[str]:
    code = "import atexit, sys; atexit.register(lambda: print('\\n'.join(sys.modules), file=sys.stderr));"
    code += f"from gateway.cli import main; main({list(arguments)!r})"
    return set(alone("-c", code, **environment).stderr.split())


def test_trace_looks_long_enough_for_what_a_repeat_repeats() -> None:
    """A second and a half was too short for the window of a busy mesh, and a repeat was called pending."""
    assert "default: 10.0" in run("trace", "--help").stdout


class TestFailures:
    @pytest.mark.parametrize(
        ("failure", "code", "words"),
        [
            (CommandError("edge.id: taken"), Exit.FAILURE, "meshgate: edge.id: taken\n"),
            (UnavailableError("kafka 127.0.0.1:1 does not answer"), Exit.UNAVAILABLE, "meshgate: kafka 127.0.0.1:1"),
            (ConfigError([Fault("a", "mesh", "is missing", 1)]), Exit.CONFIG, "meshgate: a:1: mesh: is missing\n"),
            (KeyboardInterrupt(), Exit.INTERRUPTED, ""),
            (FileNotFoundError(2, "No such file", "x"), Exit.FAILURE, "meshgate: x: No such file\n"),
            (ValueError("two\nlines"), Exit.FAILURE, "meshgate: internal: ValueError: two lines (-v shows where)\n"),
            (click.BadParameter("no", param_hint="--x"), Exit.USAGE, "Invalid value for --x: no (see meshgate schema"),
        ],
    )
    def test_each_ends_in_one_line_and_a_code_of_its_own(
        self, monkeypatch: pytest.MonkeyPatch, failure: BaseException, code: Exit, words: str
    ) -> None:
        result = run_verb(monkeypatch, failing(failure))
        assert result.exit_code == code
        assert words in result.stderr
        assert "Traceback" not in result.stderr

    def test_every_fault_of_a_configuration_is_a_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        faults = [Fault("a", "mesh", "is missing"), Fault("a", "bogus", "unknown key", 3)]
        result = run_verb(monkeypatch, failing(ConfigError(faults)))
        assert result.stderr == "meshgate: a: mesh: is missing\nmeshgate: a:3: bogus: unknown key\n"

    @pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (1, 1), (78, 78), (True, 0), ("text", 0)])
    def test_a_verb_may_return_its_exit_code(
        self, monkeypatch: pytest.MonkeyPatch, returned: object, code: int
    ) -> None:
        assert run_verb(monkeypatch, lambda: returned).exit_code == code

    def test_a_verb_may_end_by_its_context(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert run_verb(monkeypatch, lambda: click.get_current_context().exit(3)).exit_code == 3


def failing(failure: BaseException) -> Callable[[], object]:
    def verb() -> None:
        raise failure

    return verb


def run_verb(monkeypatch: pytest.MonkeyPatch, callback: Callable[[], object]) -> Result:
    """A verb of the test's own in the place of another."""
    monkeypatch.setattr("gateway.cli.schema.command", click.Command("schema", callback=callback))
    return run("schema")


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_each_shell_gets_a_script(self, shell: str) -> None:
        result = run("completion", shell)
        assert result.exit_code == Exit.OK
        assert "_MESHGATE_COMPLETE" in result.stdout
        assert shell in result.stdout

    def test_an_unknown_shell_is_refused(self) -> None:
        result = run("completion", "csh")
        assert result.exit_code == Exit.USAGE
        assert "'csh' is not one of" in result.stderr

    @pytest.mark.parametrize(
        ("words", "completed"),
        [("meshgate vali", "validate"), ("meshgate peers ki", "kick"), ("meshgate top --onc", "--once")],
    )
    def test_verbs_and_their_options_are_completed(self, words: str, completed: str) -> None:
        at = str(words.count(" "))
        asked = {"_MESHGATE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": at}
        assert alone("-m", "gateway.cli", **asked).stdout == f"plain,{completed}\n"


@pytest.mark.parametrize("group", ["config", "interests", "keys", "peers", "rejected", "rules", "topics"])
def test_a_verb_of_verbs_takes_the_configuration_before_them_and_after(group: str) -> None:
    command = main.get_command(click.Context(main), group)
    assert isinstance(command, click.Group)
    for verb, below in command.commands.items():
        if any(parameter.name == "config_file" for parameter in below.params):
            for line in ((group, "-c", "no/such.yaml", verb), (group, verb, "-c", "no/such.yaml")):
                result = run(*line, *ARGUMENTS.get(f"{group} {verb}", ()))
                assert result.exit_code == Exit.CONFIG
                assert result.stderr == "meshgate: no/such.yaml: cannot read it: No such file or directory\n"


def leaves(command: click.Command, *names: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(names), command
        return
    for name in command.list_commands(click.Context(command)):
        below = command.get_command(click.Context(command), name)
        assert below is not None
        yield from leaves(below, *names, name)


def test_every_verb_speaks_json_and_says_as_much_as_it_is_asked_to() -> None:
    for name, verb in leaves(main):
        options = {option for parameter in verb.params for option in parameter.opts}
        assert {"--output", "--json", "-v", "-q", "--log-format"} <= options, name


def test_every_verb_takes_the_configuration_s_file_also_where_it_reads_none() -> None:
    for name, verb in leaves(main):
        assert "-c" in {option for parameter in verb.params for option in parameter.opts}, name


@pytest.mark.parametrize("line", [("--json",), ("--output", "text", "--json"), ("--json", "--output", "text")])
def test_json_is_short_for_output_json(line: tuple[str, ...]) -> None:
    assert said(run("completion", "bash", *line)) == said(run("completion", "bash", "--output", "json"))


def test_what_is_a_file_for_something_else_may_be_had_as_json_too() -> None:
    script = run("completion", "bash")
    assert said(run("completion", "bash", "--output", "json")) == {"shell": "bash", "script": script.stdout[:-1]}
    rules = said(run("rules", "examples", "--output", "json"))
    assert rules == yaml.safe_load(run("rules", "examples").stdout)
    assert all(rule["name"] and rule["sql"] for rule in rules)


class TestLogFormat:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("schema", "--output", "xml"), "'xml' is not one of"),
            (("rejected", "show"), "Missing argument"),
            (("config", "print", "-c", "no/such.yaml"), "no/such.yaml: cannot read it: No such file or directory"),
        ],
    )
    def test_errors_are_lines_of_the_log_where_that_is_json(self, arguments: tuple[str, ...], words: str) -> None:
        result = run(*arguments, "--log-format", "json")
        assert result.exit_code != Exit.OK
        (line,) = result.stderr.splitlines()
        told = json.loads(line)
        assert words in told.pop("message")
        assert told.pop("time").endswith("Z")
        assert told == {"level": "error", "logger": "meshgate"}
        assert run(*arguments).stderr.startswith("meshgate: ")

    def test_every_fault_of_a_configuration_is_a_line_of_its_own(self, tmp_path: Path) -> None:
        (tmp_path / "meshgate.yaml").write_text("mesh: demo\nbogus: 1\nkafka: {partitions: 0}\n")
        result = run("validate", "-c", str(tmp_path / "meshgate.yaml"), "--log-format", "json")
        assert len([json.loads(line)["message"] for line in result.stderr.splitlines()]) == 2

    def test_notes_are_lines_of_the_log_too(self, tmp_path: Path) -> None:
        (tmp_path / "meshgate.yaml").write_text("mesh: demo")
        result = run("validate", "-c", str(tmp_path / "meshgate.yaml"), "--log-format", "json")
        (line,) = map(json.loads, result.stderr.splitlines())
        assert (line["level"], "up and init make it" in line["message"]) == ("info", True)
