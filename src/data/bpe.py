"""Byte-level byte-pair encoding, as GPT-2 has it, by the library `tokenizers`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int64, Integer, UInt

from src.data.tokens import known_tokens
from src.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_TEXT = "<|endoftext|>"
LEAST_SIZE = 257
"""The 256 bytes and the mark between documents; merges come on top."""
_MISSING = "byte-pair encoding needs the library tokenizers; install it with: pip install 'tokenizers>=0.22,<0.24'"


@dataclass(frozen=True)
class BpeVocabulary:
    """The tokens of a tokenizer.json, which any tool that reads such files can use too.

    Every text has tokens: what is no merge is spelt in bytes. Raises DataError where the JSON is no such tokenizer.
    """

    definition: str

    def __post_init__(self) -> None:
        _ = self._tokenizer  # refused here, not at the first use

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BpeVocabulary:
        definition = values.get("definition")
        if values.get("kind") != "bpe" or not isinstance(definition, str):
            raise DataError(f"not a byte-pair vocabulary: kind={values.get('kind')!r}; was it written by this project?")
        return cls(definition)

    @classmethod
    def learn(cls, texts: Iterable[str], size: int) -> BpeVocabulary:
        """Learns merges until there are `size` tokens (fewer where the texts have no more pairs to merge).

        The texts are gone through once; what is kept of them is how often each word occurs.
        Raises DataError for a size below `LEAST_SIZE`. Source: Sennrich et al. 2016; Radford et al. 2019.
        """
        if size < LEAST_SIZE:
            raise DataError(
                f"a byte-pair vocabulary of {size} tokens: {LEAST_SIZE} are needed for the 256 bytes and "
                f"{END_OF_TEXT}; ask for more, or use the bytes themselves as tokens"
            )
        tokenizers = _library()
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=size,
            show_progress=False,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer.to_str(pretty=True))

    def to_dict(self) -> dict[str, str]:
        return {"kind": "bpe", "definition": self.definition}

    @property
    def facts(self) -> dict[str, Any]:
        """Kind, size and hash: the definition itself is megabytes long."""
        return {"kind": "bpe", "size": self.size, "hash": self.hash}

    @property
    def size(self) -> int:
        return self._size

    @property
    def hash(self) -> str:
        return self._hash

    @cached_property
    def _size(self) -> int:
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    @cached_property
    def _hash(self) -> str:
        canonical = json.dumps(json.loads(self.definition), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def start(self) -> str:
        return "\n"

    @property
    def end_of_text(self) -> int | None:
        """The token between documents; None where the tokenizer has none of that name."""
        return self._tokenizer.token_to_id(END_OF_TEXT)

    def encode(self, text: str) -> UInt[np.ndarray, " T"]:
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[UInt[np.ndarray, " T"]]:
        """Tokens of each text, on all cores. A mark such as `END_OF_TEXT` inside a text is spelt like any word."""
        whole = [text.encode("utf-8", "replace").decode() for text in texts]  # lone surrogates have no bytes
        encodings = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        return [np.array(encoding.ids, dtype=self.dtype) for encoding in encodings]

    def decode(self, tokens: Integer[np.ndarray, " T"] | Sequence[int]) -> str:
        return self._tokenizer.decode(known_tokens(tokens, self.size).tolist(), skip_special_tokens=False)

    def bytes_of(self, tokens: Integer[np.ndarray, " T"]) -> int | None:
        """None for a tokenizer that is not byte-level; marks between documents count nothing."""
        widths = self._byte_widths
        return None if widths is None else int(np.bincount(tokens, minlength=self.size) @ widths)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint16 if self.size <= 1 << 16 else np.uint32)

    @cached_property
    def _byte_widths(self) -> Int64[np.ndarray, " V"] | None:
        decoder = json.loads(self.definition).get("decoder") or {}
        if decoder.get("type") != "ByteLevel":
            return None
        widths = np.zeros(self.size, dtype=np.int64)
        for token, place in self._tokenizer.get_vocab(with_added_tokens=False).items():
            widths[place] = len(token)  # a byte-level token is written with one sign a byte
        for place in self._tokenizer.get_added_tokens_decoder():
            widths[place] = 0
        return widths

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        try:
            tokenizer = _library().Tokenizer.from_str(self.definition)
        except DataError:
            raise
        except Exception as error:  # the library raises bare Exceptions
            raise DataError(f"not a tokenizer.json: {error}; was the file cut short or written by hand?") from None
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer


def _library() -> Any:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError:
        raise DataError(_MISSING) from None
    return tokenizers
