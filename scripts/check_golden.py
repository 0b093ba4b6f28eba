"""Compares a built kvlab with the answers in tests/golden, in every variant, through the command line alone.

Needs only Python's standard library. One line a check; exit 0: all pass, 1: one fails, 2: wrong use, 77: the real model
is not there.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
MODELS = ROOT / "models"

SMOLLM2_LOGIT_TOLERANCE = 5e-4
SMOLLM2_NLL_TOLERANCE = 1e-5
TINY_LOGIT_TOLERANCE = 1e-3
SMOLLM2_HEADS, SMOLLM2_KV_HEADS = 9, 3
ATTENTIONS = ("naive", "fused")


def pairings(caches, heads):
    """Flags of every cache x prefill attention x decode attention x heads."""
    for cache, prefill, decode, head in itertools.product(caches, ATTENTIONS, ATTENTIONS, heads):
        yield ["--cache", cache, "--prefill-attention", prefill, "--decode-attention", decode, "--heads", head]


def single_values(n_heads, n_kv_heads):
    """Flags of each value of each other axis alone that leaves the output as it is."""
    yield ["--logits", "all"]
    yield ["--prune", "last_layer"]
    yield ["--projection", "separate"]
    for page_size in (1, 7, 64, 256):
        yield ["--cache", "paged", "--page-size", str(page_size)]
    for chunk in (1, 3, 16):
        yield ["--prefill-chunk", str(chunk)]
    for groups in range(n_kv_heads, n_heads + 1, n_kv_heads):
        if n_heads % groups == 0:
            yield ["--heads", f"gqa:{groups}"]
    yield ["--cache", "none", "--prune", "last_layer"]
    yield ["--cache", "none", "--logits", "all"]


def every_variant(n_heads, n_kv_heads):
    yield from pairings(("none", "contiguous", "paged", "qkv"), ("model", "mha"))
    yield from single_values(n_heads, n_kv_heads)


def few_variants():
    yield ["--cache", "contiguous", "--attention", "fused"]
    yield ["--cache", "none", "--attention", "naive"]
    yield ["--cache", "paged", "--prefill-attention", "fused", "--decode-attention", "naive", "--heads", "mha"]
    yield ["--cache", "qkv", "--attention", "naive"]


def label(flags):
    """"paged fused+naive mha": flags that name their value well enough alone lose their name."""
    choices = dict(zip((flag.removeprefix("--") for flag in flags[::2]), flags[1::2]))
    if "prefill-attention" in choices:
        choices["attention"] = f"{choices.pop('prefill-attention')}+{choices.pop('decode-attention')}"
    named = ("cache", "attention", "heads")
    plain = [choices[name] for name in named if name in choices]
    return " ".join(plain + [f"{name}={value}" for name, value in choices.items() if name not in named]) or "defaults"


class Checks:
    """Counts checks and prints a line for each."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.start_s = time.monotonic()

    def record(self, ok, what, detail):
        self.passed += ok
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {what}: {detail}", flush=True)

    def summary(self):
        elapsed_s = time.monotonic() - self.start_s
        print(f"check_golden: {self.passed} passed, {self.failed} failed in {elapsed_s:.0f} s")
        return 1 if self.failed or not self.passed else 0


class KvlabError(Exception):
    pass


class Kvlab:
    """The program under test, through its command line."""

    def __init__(self, path):
        self.path = path

    def run(self, arguments, stdin=b""):
        done = subprocess.run([self.path, *arguments], input=stdin, capture_output=True, check=False)
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            raise KvlabError(f"exit {done.returncode}: {lines[-1]}")
        return json.loads(done.stdout)

    def generate(self, model, prompt_ids, n_tokens, flags):
        """Returns the greedy tokens and the logits [vocab_size] of the prompt's last row."""
        with tempfile.NamedTemporaryFile(suffix=".json") as logits:
            answer = self.run(["generate", "--model", str(model), "--prompt-ids", ",".join(map(str, prompt_ids)),
                               "--max-new-tokens", str(n_tokens), "--ignore-eos", "--json", "-",
                               "--logits-out", logits.name, *flags])
            return answer["tokens"], json.loads(pathlib.Path(logits.name).read_text())

    def mean_nll(self, model, ids, flags):
        answer = self.run(["score", "--model", str(model), "--prompt-ids", ",".join(map(str, ids)), "--json", "-", *flags])
        return answer["mean_nll"]

    def tokenize(self, model, text, parse_special):
        arguments = ["tokenize", "--model", str(model), "--json"] + ["--parse-special"] * parse_special
        return self.run([*arguments, "-"], stdin=text.encode("utf-8"))["ids"]


def worst_difference(logits, expected):
    """The largest |logit - expected| over `expected` {id: logit}; NaN and missing ids count as infinite."""
    worst = 0.0
    for token, value in expected.items():
        logit = logits[token] if token < len(logits) else None
        difference = abs(logit - value) if logit is not None else float("inf")
        worst = max(worst, difference if difference == difference else float("inf"))
    return worst


def expected_logits(entry):
    """{id: logit} from a golden entry: the leading and the first ids, or all of them."""
    if "logits_last" in entry:
        return dict(enumerate(entry["logits_last"]))
    leading = {int(token): value for token, value in entry["top_logits"].items()}
    return {**dict(enumerate(entry["logits_0_32"])), **leading}


def check_generation(checks, kvlab, model, name, entry, flags, tolerance):
    what = f"{name}, {label(flags)}"
    try:
        tokens, logits = kvlab.generate(model, entry["prompt_ids"], len(entry["greedy"]), flags)
    except KvlabError as error:
        checks.record(False, what, str(error))
        return
    worst = worst_difference(logits, expected_logits(entry))
    same = tokens == entry["greedy"]
    detail = f"{len(tokens)} tokens equal" if same else f"tokens {tokens}, expected {entry['greedy']}"
    checks.record(same and worst <= tolerance, what, f"{detail}; worst logit difference {worst:.1e} of {tolerance:.0e}")


def check_ids(checks, kvlab, model, name, text, parse_special, expected):
    what = f"{name} ids of {text[:40]!r}"
    try:
        ids = kvlab.tokenize(model, text, parse_special)
    except KvlabError as error:
        checks.record(False, what, str(error))
        return
    checks.record(ids == expected, what, f"{len(ids)} ids equal" if ids == expected else f"{ids}, expected {expected}")


def check_likelihood(checks, kvlab, model, ids, expected, flags):
    what = f"smollm2 mean negative log likelihood of {len(ids)} tokens, {label(flags)}"
    try:
        actual = kvlab.mean_nll(model, ids, flags)
    except KvlabError as error:
        checks.record(False, what, str(error))
        return
    difference = abs(actual - expected) if actual is not None else float("inf")
    checks.record(difference <= SMOLLM2_NLL_TOLERANCE, what,
                  f"{actual}, difference {difference:.1e} of {SMOLLM2_NLL_TOLERANCE:.0e}")


def check_smollm2(checks, kvlab, model, quick):
    golden = json.loads((GOLDEN / "smollm2.json").read_text())
    prompts = golden["prompts"][:2] if quick else golden["prompts"]
    for entry in prompts:
        check_ids(checks, kvlab, model, "smollm2", entry["prompt"], entry["parse_special"], entry["prompt_ids"])
    variants = list(few_variants() if quick else every_variant(SMOLLM2_HEADS, SMOLLM2_KV_HEADS))
    for entry, flags in itertools.product(prompts, variants):
        check_generation(checks, kvlab, model, f"smollm2 {entry['prompt'][:24]!r}", entry, flags, SMOLLM2_LOGIT_TOLERANCE)
    if quick:
        return
    cached = [flags for flags in variants if "none" not in flags]
    recomputing = [["--cache", "none", "--attention", attention] for attention in ATTENTIONS]
    for flags in cached + recomputing:
        check_generation(checks, kvlab, model, "smollm2 long prompt", golden["long"], flags, SMOLLM2_LOGIT_TOLERANCE)
    for flags in ([], ["--attention", "naive"], ["--cache", "none"], ["--cache", "paged", "--prefill-chunk", "64"]):
        check_likelihood(checks, kvlab, model, golden["long"]["prompt_ids"], golden["long_mean_nll"], flags)


def check_strings(checks, kvlab, model, name, golden_file):
    for entry in json.loads((GOLDEN / golden_file).read_text())["strings"]:
        check_ids(checks, kvlab, model, name, entry["text"], True, entry["ids"])


def tiny_heads(folder):
    config = json.loads((folder / "config.json").read_text())
    n_heads = config.get("num_attention_heads", config.get("n_head"))
    return n_heads, config.get("num_key_value_heads", n_heads)


def check_tiny(checks, kvlab, quick):
    for folder in sorted(path.parent for path in GOLDEN.glob("*/expected.json")):
        entry = json.loads((folder / "expected.json").read_text())
        variants = few_variants() if quick else every_variant(*tiny_heads(folder))
        for flags, dtype in itertools.product(list(variants), ("f32", "bf16")):
            check_generation(checks, kvlab, folder, f"tiny {folder.name}", entry, [*flags, "--weight-dtype", dtype],
                             TINY_LOGIT_TOLERANCE)
        check_bf16_cache(checks, kvlab, folder, entry)


def check_bf16_cache(checks, kvlab, folder, entry):
    """K and V in bf16: no variant may be further off than twice the naive one with the same storage."""
    def error_of(flags):
        _, logits = kvlab.generate(folder, entry["prompt_ids"], 1, [*flags, "--kv-dtype", "bf16"])
        return worst_difference(logits, expected_logits(entry))

    name = f"tiny {folder.name}, kv bf16"
    try:
        bound = 2 * error_of(["--cache", "contiguous", "--attention", "naive"])
        for cache, attention in itertools.product(("contiguous", "paged", "qkv"), ATTENTIONS):
            worst = error_of(["--cache", cache, "--attention", attention])
            checks.record(worst <= bound, f"{name}, {cache} {attention}", f"worst logit difference {worst:.1e} of {bound:.1e}")
    except KvlabError as error:
        checks.record(False, name, str(error))


def parse_arguments():
    parser = argparse.ArgumentParser(prog="check_golden.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--kvlab", type=pathlib.Path, default=ROOT / "build/release/kvlab", help="the program to check")
    parser.add_argument("--model", type=pathlib.Path, default=MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf",
                        help="the real model")
    parser.add_argument("--quick", action="store_true", help="two prompts, few variants")
    parser.add_argument("--only", choices=("smollm2", "tiny", "strings"), help="one part; default: all three")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if not arguments.kvlab.is_file():
        print(f"check_golden: there is no program {arguments.kvlab}; build it: scripts/test.sh", file=sys.stderr)
        return 2
    if arguments.only != "tiny" and not arguments.model.is_file():
        print(f"check_golden: skipped, there is no {arguments.model}; fetch it: scripts/fetch_model.py smollm2")
        return 77
    checks, kvlab = Checks(), Kvlab(arguments.kvlab)
    if arguments.only in (None, "strings") and not (arguments.quick and arguments.only is None):
        check_strings(checks, kvlab, arguments.model, "smollm2", "smollm2.json")
        gemma3 = MODELS / "gemma-3-270m-q4_k_m.gguf"
        if gemma3.is_file():
            check_strings(checks, kvlab, gemma3, "gemma3", "gemma3.json")
        else:
            print("check_golden: the strings of gemma3 are skipped; fetch it: scripts/fetch_model.py gemma3")
    if arguments.only in (None, "tiny"):
        check_tiny(checks, kvlab, arguments.quick)
    if arguments.only in (None, "smollm2"):
        check_smollm2(checks, kvlab, arguments.model, arguments.quick)
    return checks.summary()


if __name__ == "__main__":
    sys.exit(main())
