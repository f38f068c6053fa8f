# SPDX-License-Identifier: Apache-2.0
"""Text: bpe_encode against the tokenizers package on text of every kind, extract_text against its
rule, written down once more here for pages that need no guessing."""
import base64
import html
import json
import pathlib
import random

import numpy as np
import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors, trainers

import mrlib
from mrlib import CODES, MrError, apply

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")

# ---- Tokenizers --------------------------------------------------------------------------------


def sentences():
    rnd = random.Random(1)
    words = ["".join(rnd.choice("etaoinshrdlu") for _ in range(rnd.randrange(1, 9))) for _ in range(300)]
    words += ["it's", "we'll", "naïve", "Straße", "漢字", "слово", "123", "3.14", "\n", "\t", "--", "!?"]
    for _ in range(400):
        yield " ".join(rnd.choice(words) for _ in range(20))


def level(kind, prefix):
    if kind == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    if kind == "llama3":
        return pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)


def trained(kind, prefix=False, added=False, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = level(kind, prefix)
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(sentences(), trainer)
    if added:
        tokenizer.add_tokens(["foo bar", AddedToken("<m>", lstrip=True), AddedToken("<r>", rstrip=True),
                              "ab", "abc", "漢字"])
        tokenizer.add_special_tokens([AddedToken("[X]", lstrip=True, rstrip=True)])
        ends = [("<|end|>", tokenizer.token_to_id("<|end|>")), ("[X]", tokenizer.token_to_id("[X]"))]
        tokenizer.post_processor = processors.TemplateProcessing(single="<|end|> $A [X]",
                                                                 special_tokens=ends)
    return tokenizer


PIECES = [" ", " ", " ", "\n", "\r", "\t", "'", "s", "S", "t", "re", "LL", "ll", "ſ", "a", "b", "c",
          "foo bar", "<m>", "<r>", "[X]", "<|end|>", "1", "23", "٣", "é", "漢", "字", "😀", "\u3000",
          "\u00a0", "\u0085", "\u2028", "!", "-", "...", "\u0301", "\U00031350", "\u1c89", "Z",
          "\U0001e900", "½", "\x00", "\u200d", "the", "aeiou", "eeee"]


def texts(rnd, n):
    fixed = ["", " ", "a", "a" * 3000, "ab" * 2000, " " * 500, "\n" * 300 + "x", "  <m>  <r>  [X] "]
    for text in fixed:
        yield text
    for _ in range(n):
        kind, length = rnd.random(), rnd.randrange(1, 80)
        if kind < 0.6:
            yield "".join(rnd.choice(PIECES) for _ in range(length))
        else:
            top = 0x110000 if kind < 0.8 else 0x3000
            points = (rnd.randrange(top) for _ in range(length))
            yield "".join(chr(c) for c in points if not 0xD800 <= c < 0xE000)


def url(text):
    return "data:;base64," + base64.b64encode(text.encode()).decode()


CASES = [("gpt2", {}), ("gpt2", {"prefix": True}), ("gpt2", {"prefix": True, "added": True}),
         ("gpt2", {"added": True}), ("llama3", {"ignore_merges": True}), ("llama3", {"added": True}),
         ("none", {}), ("none", {"prefix": True})]


@pytest.mark.parametrize("kind,how", CASES)
def test_ids_equal_those_of_tokenizers(kind, how):
    tokenizer = trained(kind, **how)
    params = {"tokenizer": url(tokenizer.to_str())}
    for text in texts(random.Random(kind + str(how)), 150):
        got = apply("bpe_encode", params, text.encode())
        assert got.dtype == np.int32
        assert got.tolist() == tokenizer.encode(text).ids, repr(text[:200])


def test_special_tokens_and_types():
    tokenizer = trained("gpt2", added=True)
    params = {"tokenizer": url(tokenizer.to_str()), "add_special_tokens": False, "dtype": "int64"}
    got = apply("bpe_encode", params, b"the end")
    assert got.dtype == np.int64
    assert got.tolist() == tokenizer.encode("the end", add_special_tokens=False).ids


def test_one_worker_remembers_words_and_still_gives_the_same(tmp_path):
    """Many texts through one worker: its table of words fills and is overwritten."""
    tokenizer = trained("gpt2")
    rnd = random.Random(3)
    strings = [" ".join("".join(rnd.choice("abcdefgh") for _ in range(rnd.randrange(1, 12)))
                        for _ in range(3000)) for _ in range(15)]
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    folder = tmp_path / "texts" / "one"
    folder.mkdir(parents=True)
    for i, text in enumerate(strings):
        (folder / f"{i:02}.txt").write_text(text)
    pipeline = {"source": {"files": {"path": str(folder.parent), "extensions": [".txt"]}},
                "batch": 5, "shuffle": False,
                "ops": [{"bpe_encode": {"tokenizer": str(tmp_path / "tokenizer.json")}}]}
    got = []
    with mrlib.Loader(pipeline, threads=1) as loader:
        for batch in loader:
            got += [ids.tolist() for ids in next(v for v in batch.values() if isinstance(v, list))]
    assert got == [tokenizer.encode(text).ids for text in strings]


@pytest.mark.skipif(not (SHARED / "text" / "encoder.json").exists(), reason="../shared is not there")
def test_gpt2(tmp_path):
    vocab = json.loads((SHARED / "text" / "encoder.json").read_text())
    merges = [tuple(line.split()) for line in
              (SHARED / "text" / "vocab.bpe").read_text("utf-8").split("\n")[1:] if line]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = level("gpt2", False)
    path = tmp_path / "gpt2.json"
    path.write_text(tokenizer.to_str(), encoding="utf-8")
    pages = sorted((SHARED / "corpora" / "html").glob("**/*.html"))[:6]
    for page in pages:
        text = page.read_bytes().decode("utf-8", "replace")
        got = apply("bpe_encode", {"tokenizer": str(path)}, text.encode())
        assert got.tolist() == tokenizer.encode(text).ids


def test_what_is_not_done_is_refused():
    base = json.loads(trained("gpt2").to_str())
    bert = {"type": "BertPreTokenizer"}
    other = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": r"\w+"}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    for part, entries in [("normalizer", {"normalizer": {"type": "NFC"}}),
                          ("pre-tokenizer", {"pre_tokenizer": bert}), ("pattern", {"pre_tokenizer": other}),
                          ("dropout", {"model": {**base["model"], "dropout": 0.1}}),
                          ("BPE", {"model": {**base["model"], "type": "WordPiece"}}),
                          ("truncation", {"truncation": {"max_length": 5}}),
                          ("byte", {"model": {**base["model"], "vocab": {"a": 0}, "merges": []}})]:
        with pytest.raises(MrError) as caught:
            apply("bpe_encode", {"tokenizer": url(json.dumps({**base, **entries}))}, b"a")
        assert caught.value.code == CODES["UNSUPPORTED"] and part in caught.value.text, caught.value
    for text in ("", "{", "[]", "{}", '{"pre_tokenizer": 3}'):
        with pytest.raises(MrError):
            apply("bpe_encode", {"tokenizer": url(text)}, b"a")


def test_sentencepiece_models_are_refused_by_name(tmp_path):
    path = tmp_path / "sentencepiece.model"
    path.write_bytes(b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\n\x0c\n\x03<s>\x15\0\0\0\0\x18\x03")
    with pytest.raises(MrError) as caught:
        apply("bpe_encode", {"tokenizer": str(path)}, b"a")
    assert caught.value.code == CODES["UNSUPPORTED"] and "SentencePiece" in caught.value.text, caught.value


def test_text_that_is_not_utf8_is_refused():
    params = {"tokenizer": url(trained("gpt2").to_str())}
    for bad in (b"\xff", b"abc\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a" * 20 + b"\x80"):
        with pytest.raises(MrError) as caught:
            apply("bpe_encode", params, bad)
        assert caught.value.code == CODES["CORRUPT"]
        with pytest.raises(UnicodeDecodeError) as python:
            bad.decode()
        assert caught.value.offset == python.value.start


# ---- Web pages ---------------------------------------------------------------------------------

BLOCKS, HEADINGS = ["p", "div", "li", "section", "blockquote"], ["h1", "h2", "h3"]
ASIDES, SKIPPED = ["nav", "aside", "footer", "form"], ["script", "style", "svg", "noscript"]


class Page:
    """A random page that is well formed, and the blocks it has: (text, links, heading, aside)."""

    def __init__(self, seed):
        self.rnd = random.Random(seed)
        self.blocks, self.text = [], []
        self.source = "<!DOCTYPE html><html><head><title>no</title></head><body>"
        for _ in range(self.rnd.randrange(1, 12)):
            self.source += self.block(False)
        self.source += "</body></html>"

    def words(self, n):
        return " ".join("".join(self.rnd.choice("abc&<>é漢") for _ in range(self.rnd.randrange(1, 9)))
                        for _ in range(n))

    def inline(self):
        """Source of a run of text, its plain text, and how many characters are in links."""
        source, plain, links = "", "", 0
        for i in range(self.rnd.randrange(1, 5)):
            text = self.words(self.rnd.randrange(1, 9))
            kind = self.rnd.choice(["", "", "b", "a", "skip"])
            if kind == "skip":
                name = self.rnd.choice(SKIPPED)
                source += f"<{name}>hidden</{name}>"
                continue
            gap = self.rnd.choice([" ", "\n  ", "\t"]) if plain else ""
            body = html.escape(text, quote=False).replace(" ", self.rnd.choice([" ", "  \n"]))
            source += gap + (f"<{kind}>{body}</{kind}>" if kind else body)
            plain += (" " if plain else "") + text
            links += len(text) if kind == "a" else 0
        return source, plain, links

    def block(self, aside):
        if self.rnd.random() < 0.2 and not aside:
            name = self.rnd.choice(ASIDES)
            inner = "".join(self.block(True) for _ in range(self.rnd.randrange(1, 3)))
            return f"<{name}>{inner}</{name}>\n"
        name = self.rnd.choice(BLOCKS + HEADINGS)
        source, plain, links = self.inline()
        if plain:
            self.blocks.append((plain, links, name in HEADINGS, aside))
        return f"<{name}>{source}</{name}>\n"


def rule(blocks, min_length):
    alone = [not heading and not aside and len(text) >= min_length and 3 * links <= len(text)
             for text, links, heading, aside in blocks]
    kept = list(alone)
    for i, (text, links, heading, aside) in enumerate(blocks):
        if alone[i]:
            continue
        after = i
        while after < len(blocks) and blocks[after][2] and not blocks[after][3] and not alone[after]:
            after += 1
        before_a_kept_one = heading and not aside and after < len(blocks) and alone[after]
        between = 0 < i < len(blocks) - 1 and alone[i - 1] and alone[i + 1]
        kept[i] = before_a_kept_one or (between and not aside and 3 * links <= len(text))
    return "\n".join(block[0] for block, keep in zip(blocks, kept) if keep)


@pytest.mark.parametrize("seed", range(150))
def test_pages(seed):
    page = Page(seed)
    data = page.source.encode()
    assert apply("extract_text", {"part": "all"}, data).tobytes().decode() == \
        "\n".join(block[0] for block in page.blocks)
    for min_length in (0, 30, 80):
        assert apply("extract_text", {"min_length": min_length}, data).tobytes().decode() == \
            rule(page.blocks, min_length)


def extracted(source, **params):
    data = source if isinstance(source, bytes) else source.encode()
    return apply("extract_text", {"part": "all", **params}, data).tobytes().decode()


@pytest.mark.parametrize("source,want", [
    ("", ""), ("plain text", "plain text"), ("<p>one<p>two", "one\ntwo"), ("a<br>b <br/> c", "a\nb\nc"),
    ("<table><tr><td>a<td>b<tr><th>c<td>d</table>", "a b\nc d"),
    ("<pre> x\n  y </pre>z", " x\n  y\nz"), ("<p>&lt;b&gt; &eacute;&#8212;&nbsp;x", "<b> é—\xa0x"),
    ("<p hidden>no<p>yes", "yes"), ("<p>a</i>b</div>c", "abc"), ("<p>a\0b", "a b"),
    ('<!-- -- <p x="-->one<p y=" ">two', "one\ntwo"), ("<p>one<!-- two -->three", "onethree"),
    ("<select><option>no</select><button>no</button>yes", "yes"),
])
def test_small_pages(source, want):
    assert extracted(source) == want


def test_encodings():
    assert extracted("<p>café".encode("latin-1")) == "café"
    assert extracted("<meta charset=iso-8859-2><p>źle".encode("iso-8859-2")) == "źle"
    assert extracted("<meta charset=iso-8859-2><p>źle".encode()) == "źle"  # UTF-8 speaks for itself


UNREAD = "<!-- -- -->"  # from here on nothing is left out before the parser has it
PIECES = ["<", ">", '"', "'", "=", "/", "<!--", "-->", "--", "<script>", "</script>", '<script>"</p>"', "<title>", "</title>", "<!",
          "<textarea>", "<style", "</", "</p>", "<p hidden>", "<p class=x>", '<div class="a" hidden="b">', "<?", "<xmp>", " ", "\n",
          "\0", "&", "hidden", "a", "text", "<br/>", "<!doctype html>", "<!---->", "<!-- c -->", "<body>",
          '<iframe src="x"></iframe>', "<p", ' x="', ' f=""', '"a', '">', "<!-- -- "]


@pytest.mark.parametrize("page", [
    '<!--> one <p x="-->two">three', '<!-- --!> one <p x="-->two">three',
    "<script><noscript></script>one", "<style><frameset></style>one<p>two",
    '<script>"</p>" one <b x="</script>two<p y="">three', '<script/>one <b x="</script>two<p y="">three',
    '<title><p x="</title>one<p y="">two', '<p x=\'a"b\'>one<p y=\'"\'>two', '<p x = ">">one', '<p x="a"hidden>one', '<p x=a/>one',
    "<p x='a' hidden y='b'>one</p>two", "<p x=" + 2 ** 20 * "a" + ">one", "<" + 40 * "a" + ' x="">one',
])
def test_nothing_with_text_is_left_out_where_parsers_differ(page):
    assert extracted(page) == extracted(UNREAD + page)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_with_text_is_left_out_before_parsing(seed):
    rnd = random.Random(seed)
    for _ in range(300):
        page = "".join(rnd.choice(PIECES) for _ in range(rnd.randrange(1, 30)))
        assert extracted(page) == extracted(UNREAD + page), page


def test_nothing_with_text_is_left_out_of_pages_of_the_web():
    pages = [path.read_bytes().decode("utf-8", "replace") for path in sorted((SHARED / "corpora" / "html").glob("*.html"))]
    if not pages:
        pytest.skip("there are no pages in ../shared")
    for page in pages:
        if not page.startswith(("\ufeff", "<?xml")):  # which stand at the beginning or nowhere
            assert extracted(page) == extracted(UNREAD + page), page[:200]


def test_pages_that_cost_more_than_they_are_worth():
    for source, part in ((b"<div>" * 100000, "max_depth"), (b"a" * 2000, "max_bytes")):
        with pytest.raises(MrError) as caught:
            extracted(source, max_bytes=1000 if part == "max_bytes" else 10 ** 7)
        assert caught.value.code == CODES["LIMIT"] and part in caught.value.text
