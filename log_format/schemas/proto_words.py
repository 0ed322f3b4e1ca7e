"""Protobuf: reads the words of a text one after another, as its grammar expects them."""

from __future__ import annotations

from typing import Final, NoReturn

from log_format.schemas.parsed import InvalidSchema
from log_format.schemas.proto_tokens import Word, number_of, place_of, unquoted, words_of

INT_MAX: Final = 2**31 - 1


class Words:
    """The words of one text, and which is the next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.words = words_of(text)
        self.at = 0
        self.edition = 0
        """Number of the file's edition; 0: it is of none."""

    @property
    def word(self) -> Word:
        """The next word."""
        return self.words[self.at]

    @property
    def following(self) -> Word:
        """The word after the next one."""
        return self.words[min(self.at + 1, len(self.words) - 1)]

    def refuse(self, detail: str, word: Word | None = None) -> NoReturn:
        """Raise ``InvalidSchema`` at a word, or at the next one."""
        raise InvalidSchema(detail, place=place_of(self._text, (word or self.word).offset))

    def has(self, text: str) -> bool:
        """Take the next word if it is this one."""
        if self.word.text != text or self.word.kind == "text":
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        """Take the next word, which must be this one."""
        if not self.has(text):
            self.refuse(f"Expected {text!r} and found {self.word.text[:50]!r}.")

    def taken(self, kind: str) -> Word:
        """Take the next word, which must be of a kind."""
        word = self.word
        if word.kind != kind:
            self.refuse(f"Expected a {kind} and found {word.text[:50]!r}.")
        self.at += 1
        return word

    def name(self) -> str:
        """Take a name."""
        return self.taken("name").text

    def full_name(self) -> str:
        """Take a name with dots, perhaps one before it."""
        parts = ["." if self.has(".") else "", self.name()]
        while self.has("."):
            parts += [".", self.name()]
        return "".join(parts)

    def string(self) -> bytes:
        """Take one or more texts, which belong together."""
        parts: list[bytes] = []
        while self.word.kind == "text" or not parts:
            word = self.taken("text")
            try:
                parts.append(unquoted(word.text))
            except (ValueError, OverflowError):
                self.refuse("The text has an escape that is no character.", word)
        return b"".join(parts)

    def text(self) -> str:
        """Take texts that are UTF-8."""
        word = self.word
        try:
            return self.string().decode()
        except UnicodeDecodeError:
            self.refuse("The text is no UTF-8.", word)

    def integer(self, largest: int = INT_MAX, least: int = 0) -> int:
        """Take an integer within bounds."""
        word = self.word
        is_negative = self.has("-")
        number = number_of(self.taken("number"))
        if not isinstance(number, int) or not least <= (number := -number if is_negative else number) <= largest:
            self.refuse(f"Expected an integer from {least} to {largest}.", word)
        return number
