#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/ and tokenizer-quantum/: small vocabularies of every supported form, and the ids that
the `tokenizers` package gives for difficult strings.

Needs `tokenizers` 0.23 in a virtual environment. The same bytes come out on every run; run it again only to add a form
or a string.
"""

import json
import pathlib
import random
import unicodedata

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "golden" / "tokenizers"
VOCAB_SIZE = 700
SPACE_MARK = "\u2581"

GPT2_PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3_PATTERN = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"""
    r"""\s*[\r\n]+|\s+(?!\S)|\s+"""
)
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")

TEXT = """A tokenizer splits text into pieces. Byte-pair merging starts from single characters and joins the pair that
was met most often, then the next, until no pair is left that anyone would miss. It isn't magic: it's counting, and
they've counted for a long time. I'll say it again: we're only counting, and you'd see it if you'd look.
The theory of evolution explains how living things change over many generations. Quantum mechanics is a fundamental
theory in physics that describes the behaviour of nature at the scale of atoms. The cache keeps keys and values, so that
a step reads what earlier steps have written. In 1969 two people walked on the moon; 2024 was a leap year; 3.14159 is
near to pi, and 1,000,000 is 10^6.
    def add(left, right):
        return left + right    # a comment

    for (int i = 0; i < 10; ++i) { total += values[i]; }
Der Tokenizer zerlegt einen Text in Stücke; größere Wörter bestehen aus mehreren. L'été à la façade naïve, c'était déjà
hier. El niño comió una piña mañana. Привет, мир: слова делятся на части. 日本語のテキストも分かれる。 한국어도 나뉜다.
Every morning the children walked down the long road to the village, and every evening they came back again. There was
nothing in the world that they liked better than the sound of the river under the old bridge. "What is it saying?" asked
the youngest. "It says the same thing again and again," said the eldest, "but never in the same words."
"""

FIXED_STRINGS = [
    "", " ", "  ", "   ", "a", " a", "  a", "a ", "a  ", "\n", "\n\n", "\n\n\n", " \n ", "\t\tx", "a\r\nb\rc\nd", "x\n\n\n  y",
    "hello", " hello", "Hello world", "  two  spaces   three", "tab\tnew\nline\r\nend ", "trailing newline\n",
    "don't won't I'll they've we're I'm she'd it's", "DON'T WON'T I'LL THEY'VE WE'RE I'M SHE'D IT'S", "'s 's'S 'ſ rock'n'roll",
    "1", "12", "123", "1234", "12345678901234567890", "3.14 1,000,000 0x1F 1e-7", "a1b22c333", "½ ¾ ² Ⅷ ①٣٤٥ १२३ 1²",
    "naïve façade", "cafe\u0301 A\u030a n\u0303o", "\u1e69 s\u0323\u0307 s\u0307\u0323", "\u212b \u2126 \u00c5", "\u1100\u1161\u11a8 각 가\u11a8",
    "日本語 テスト", "中文，标点。", "한국어 텍스트", "Привет, мир!", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "ไทย",
    "😀😃👨\u200d👩\u200d👧", "👍🏽 🇩🇪 ❤\ufe0f", "\U0001d518\U0001d52b", "\u200b\u200d\ufeff", "\u00a0x\u00a0\u00a0y", "a\u2029b\u2028c\u0085d",
    "\u3000full\u3000width", "\u180e\u1680\u2003x", "\u0000\u0001\u007f", "ﬁ ﷺ ＡＢＣ１２３", "\ufffd", "\uf8ff\U000e0001",
    "foo_bar-baz", "http://x.y/z?a=1&b=%20", "snake_case CamelCase SHOUT", "!!! ??? ...", "a--b---c", "(([{<>}]))", "#$%&*+=^~|`\\",
    "    indented\n        more", "if (x) {\n\treturn;\n}\n\n", " .", " ,a", "x ' y", "''s", "l'été", "\"quoted\"", "e\u0301'\u0301s",
    "Quantum mechanics is a fundamental theory", "supercalifragilisticexpialidocious", "a" * 70, "ab" * 40, " " * 33 + "x",
]
ALPHABET = list("abcdefghilmnrst019.,'!?(_|:;") + [" ", " ", "  ", "\n", "\t", "\r", "\u00a0", "\u2029", "\u200d", "\u0301"] + list(
    "éñßç½²٣日本한①Ⅷя👍🏽") + ["the", " and", " in", "ing", "'s", "'LL"]


def difficult_strings(special):
    """`special`: spellings of the vocabulary's special tokens, put at the start, in the middle and side by side."""
    rng = random.Random(20240229)
    drawn = ["".join(rng.choice(ALPHABET) for _ in range(rng.randint(2, 16))) for _ in range(30)]
    spelled = []
    for token in special:
        spelled += [token, token + "hello", "a" + token + " b", token + token, " " + token + " ", token[:-1], token + "\n" + token]
    return list(dict.fromkeys(FIXED_STRINGS + spelled + drawn))


def train(pre_tokenizer, alphabet):
    """Merges that a trainer finds in TEXT, with the pieces in the order of their ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE, initial_alphabet=alphabet, min_frequency=2, show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    return pieces, model["merges"]


def added_token(piece_id, content, special):
    return {"id": piece_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": special}


def assemble(pieces, merges, added, *, normalizer, pre_tokenizer, decoder, post_processor=None, **model):
    vocab = {piece: index for index, piece in enumerate(pieces)}
    for content in added:
        vocab.setdefault(content, len(vocab))
    tokens = [added_token(vocab[content], content, special) for content, special in added.items()]
    kept = {piece: index for piece, index in vocab.items() if piece in pieces}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": sorted(tokens, key=lambda t: t["id"]),
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  **model, "vocab": kept, "merges": merges},
    }


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def isolated(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def leading_template(piece, piece_id):
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": piece, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {piece: {"id": piece, "ids": [piece_id], "tokens": [piece]}}}


def train_bytes(*splits):
    steps = pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return train(steps, sorted(pre_tokenizers.ByteLevel.alphabet()))


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def as_lines(merges):
    return [" ".join(pair) for pair in merges]


def gpt2():
    pieces, merges = train_bytes(split(GPT2_PATTERN))
    return assemble(pieces, as_lines(merges), {"<|endoftext|>": True}, normalizer=None, pre_tokenizer=byte_level(True),
                    decoder=byte_level(True), post_processor=byte_level(True))


def smollm():
    pieces, merges = train_bytes(split(r"\p{N}"), split(GPT2_PATTERN))
    digits = {"type": "Digits", "individual_digits": True}
    return assemble(pieces, merges, {"<|endoftext|>": True, "<|im_start|>": True, "<|im_end|>": True}, normalizer=None,
                    pre_tokenizer=sequence("pretokenizers", digits, byte_level(True)), decoder=byte_level(True))


def llama3():
    pieces, merges = train_bytes(split(LLAMA3_PATTERN))
    # Whole words that no chain of merges reaches: only looking words up first finds them.
    pieces += ["Ġsupercalifragilistic", "hello", "Ġmechanics", "DON"]
    begin = "<|begin_of_text|>"
    return assemble(pieces, merges, {begin: True, "<|end_of_text|>": True, "<|eot_id|>": True}, normalizer=None,
                    pre_tokenizer=sequence("pretokenizers", isolated(LLAMA3_PATTERN), byte_level(False)),
                    decoder=byte_level(True),
                    post_processor=sequence("processors", byte_level(True), leading_template(begin, len(pieces))),
                    ignore_merges=True)


def qwen2():
    pieces, merges = train_bytes(split(QWEN2_PATTERN))
    return assemble(pieces, as_lines(merges), {"<|endoftext|>": True, "<|im_start|>": True, "<tool_call>": False},
                    normalizer={"type": "NFC"},
                    pre_tokenizer=sequence("pretokenizers", isolated(QWEN2_PATTERN), byte_level(False)),
                    decoder=byte_level(True))


def train_marked():
    """Pieces with the space mark in front; no piece goes over a space."""
    pieces, merges = train(pre_tokenizers.Metaspace(prepend_scheme="always"), [])
    return [piece for piece in pieces if piece not in "日本語のテキ"], [
        pair for pair in merges if not any(character in "日本語のテキ" for character in "".join(pair))]


BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]


def marked_decoder(strips):
    parts = [{"type": "Replace", "pattern": {"String": SPACE_MARK}, "content": " "}, {"type": "ByteFallback"},
             {"type": "Fuse"}]
    return sequence("decoders", *parts, *([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if strips else []))


MARK_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}


def llama2():
    pieces, merges = train_marked()
    added = {"<unk>": True, "<s>": True, "</s>": True}
    normalizer = sequence("normalizers", {"type": "Prepend", "prepend": SPACE_MARK}, MARK_SPACES)
    return assemble([*added, *BYTE_PIECES, *pieces], as_lines(merges), added, normalizer=normalizer, pre_tokenizer=None,
                    decoder=marked_decoder(True), post_processor=leading_template("<s>", 1), unk_token="<unk>",
                    fuse_unk=True, byte_fallback=True)


def gemma():
    pieces, merges = train_marked()
    runs = ["\n", "\n\n", "\n\n\n", "\t", "\t\t"]
    added = {"<pad>": True, "<eos>": True, "<bos>": True, "<unk>": True, **{run: False for run in runs}, "<table>": False}
    spaces = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    plain = [piece for piece in pieces if piece not in runs]
    return assemble([*added, *BYTE_PIECES, *plain], merges, added, normalizer=MARK_SPACES, pre_tokenizer=spaces,
                    decoder=marked_decoder(False), post_processor=leading_template("<bos>", 2), unk_token="<unk>",
                    fuse_unk=True, byte_fallback=True)


QUANTUM_MERGES = (
    "a n|u m|▁ m|▁ a|▁ i|▁ f|e n|i c|u n|c h|a l|a m|Q u|"
    "▁m e|▁i s|ic s|ch an|Qu an|t al|am en|▁f un|"
    "▁me chan|Quan t|d amen|damen tal|▁fun damental"
)


def quantum():
    """SPEC S1's example: a vocabulary without "Quantum", which ends in Quant|um|▁mechan|ics|▁is|▁a|▁fundamental."""
    merges = QUANTUM_MERGES.split("|")
    letters = [chr(code) for code in range(0x21, 0x7F)]
    joined = [merge.replace(" ", "") for merge in merges]
    return assemble(["<unk>", *BYTE_PIECES, SPACE_MARK, *letters, *joined], merges, {"<unk>": True}, normalizer=MARK_SPACES,
                    pre_tokenizer=None, decoder=marked_decoder(False), unk_token="<unk>", byte_fallback=True)


def write_golden(folder, file):
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(file, ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text + "\n", encoding="utf-8")
    tokenizer = Tokenizer.from_str(text)
    entries = []
    for string in difficult_strings([token["content"] for token in file["added_tokens"] if token["content"].strip()]):
        entry = {"text": string, "ids": tokenizer.encode(string, add_special_tokens=False).ids}
        composed = unicodedata.normalize("NFC", string)
        if file["normalizer"] == {"type": "NFC"} and composed != string:
            entry["decoded"] = composed
        entries.append(json.dumps(entry, separators=(",", ":")))
    (folder / "ids.json").write_text('{"strings": [\n' + ",\n".join(entries) + "\n]}\n", encoding="ascii")
    print(f"{folder.name}: {len(file['model']['vocab'])} pieces, {len(entries)} strings")


def main():
    for form in (gpt2, smollm, llama3, qwen2, llama2, gemma):
        write_golden(TARGET / form.__name__, form())
    write_golden(TARGET.parent / "tokenizer-quantum", quantum())


if __name__ == "__main__":
    main()
