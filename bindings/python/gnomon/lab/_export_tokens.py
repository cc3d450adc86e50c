"""Tokenizers of the lab as tokenizer.json, with the same numbers of tokens."""

from __future__ import annotations

import pathlib
from typing import Any


def of_bytes() -> dict[str, Any]:
    """A tokenizer whose token of each byte of the UTF-8 text is its value."""
    vocab = {_letter(byte): byte for byte in range(256)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": False}
    return _tokenizer({"vocab": vocab, "merges": []}, pre_tokenizer=level, decoder=level)


def _letter(byte: int) -> str:
    """The character of a byte in byte-level vocabularies: itself if printable, else from U+0100."""
    def printable(one: int) -> bool:
        return 33 <= one <= 126 or 161 <= one <= 172 or one >= 174

    return chr(byte) if printable(byte) else chr(
        256 + sum(not printable(one) for one in range(byte)))


def of_sentencepiece(path: pathlib.Path) -> dict[str, Any]:
    """The tokenizer of `--tokens bpe:N`: BPE with a token for each byte, without normalization."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise ImportError("[lab] tokens of bpe:N must be read by sentencepiece (pip install "
                          "gnomon[export]), got no such package") from error
    model = SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(path.read_bytes())
    except (OSError, RuntimeError) as error:
        raise ValueError(f"[lab] tokenizer.model must be a model of SentencePiece, got {path}: "
                         f"{error}") from error
    ids = range(model.GetPieceSize())
    pieces = [model.IdToPiece(one) for one in ids]
    joined = [one for one in ids if not (model.IsByte(one) or model.IsUnknown(one)
                                         or model.IsControl(one) or model.IsUnused(one))]
    known = {pieces[one] for one in joined}
    # SentencePiece joins the pair with the best joined piece. tokenizers lists the pairs.
    merges = [[piece[:at], piece[at:]]
              for piece in (pieces[one] for one in sorted(joined, key=lambda i: -model.GetScore(i)))
              for at in range(1, len(piece)) if piece[:at] in known and piece[at:] in known]
    return _tokenizer(
        {"vocab": {piece: one for one, piece in enumerate(pieces)}, "merges": merges,
         "unk_token": "<unk>", "byte_fallback": True},
        normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        # No token contains a line break, so a text is joined line by line, in linear time.
        pre_tokenizer={"type": "Split", "pattern": {"String": "\n"}, "behavior": "Isolated",
                       "invert": False},
        decoder={"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]})


def _tokenizer(model: dict[str, Any], **parts: Any) -> dict[str, Any]:
    usual = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None
            } | parts | {"model": usual | model}
