"""Equations of pages: the part of LaTeX that they are written in, as MathML, which every browser
sets by itself.

Letters and numbers, `^`, `_`, primes and braces; Greek letters and signs by their names; `\\frac`,
`\\sqrt`, accents, brackets that grow by `\\left`, and words in `\\mathrm{...}`. Anything else is
refused.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "zeta": "ζ", "theta":
    "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ",
    "sigma": "σ", "tau": "τ", "phi": "ϕ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ",
    "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ",
    "Omega": "Ω"}
SCRIPT = {"M": "ℳ"}
SIGNS = {"cdot": "·", "times": "×", "sum": "∑", "le": "≤", "approx": "≈", "to": "→"}
ACCENTS = {"dot": "\u02d9", "ddot": "\u00a8", "tilde": "~", "bar": "\u00af", "hat": "^"}
NAMES = ("sin", "cos", "diag", "tr")
SPACES = {",": "0.17em", ";": "0.28em", "quad": "1em"}
_TOKEN = re.compile(r"\\([A-Za-z]+|[,;])|(\d+(?:\.\d+)?)|(\S)")


def mathml(tex: str, *, tall: bool = False) -> str:
    """An equation as an element of a page; `tall` is for one that stands by itself.

    >>> mathml(r"\\dot q^2")
    '<math><msup><mover accent="true"><mi>q</mi><mo>˙</mo></mover><mn>2</mn></msup></math>'
    """
    tokens = [(m.lastindex, m[m.lastindex]) for m in _TOKEN.finditer(tex) if m.lastindex]
    parser = _Parser(tex, tokens)
    body = "".join(parser.row())
    if parser.tokens:
        raise ValueError(f"tex: {tex!r} has a brace too many")
    return f'<math{" displaystyle=true" if tall else ""}>{body}</math>'


class _Parser:
    """Tokens from left to right; what an atom is decides how many more it takes."""

    def __init__(self, tex: str, tokens: list[tuple[int, str]]) -> None:
        self.tex, self.tokens = tex, tokens[::-1]

    def next(self) -> tuple[int, str]:
        if not self.tokens:
            raise ValueError(f"tex: {self.tex!r} ends too early")
        return self.tokens.pop()

    def peek(self) -> str:
        kind, text = self.tokens[-1] if self.tokens else (0, "")
        return text if kind == 3 else ""

    def row(self) -> Iterator[str]:
        """Atoms with their scripts, to the end or to a closing brace."""
        while self.tokens and self.peek() != "}" and self.tokens[-1] != (1, "right"):
            base, below, above = self.atom(), "", ""
            while self.peek() in ("_", "^", "'") and self.tokens:
                mark = self.next()[1]
                if mark == "_":
                    below = self.atom()
                elif mark == "^":
                    above = self.atom()
                else:  # primes are raised by every font
                    base = f'<mrow>{base}<mo lspace="0" rspace="0">′</mo></mrow>'
            if below and above:
                yield f"<msubsup>{base}{below}{above}</msubsup>"
            elif below or above:
                tag = "msub" if below else "msup"
                yield f"<{tag}>{base}{below}{above}</{tag}>"
            else:
                yield base

    def atom(self) -> str:
        kind, text = self.next()
        if kind == 2:
            return f"<mn>{text}</mn>"
        if kind == 1:
            return self.command(text)
        if text == "{":
            body = "".join(self.row())
            if self.next()[1] != "}":
                raise ValueError(f"tex: {self.tex!r} has a brace too few")
            return f"<mrow>{body}</mrow>"
        if text.isalpha():
            return f"<mi>{text}</mi>"
        sign = {"-": "−", "*": "∗"}.get(text, text)
        still = ' stretchy="false"' if sign in "()[]|" else ""
        return f"<mo{still}>{html.escape(sign)}</mo>"

    def command(self, name: str) -> str:
        if name in GREEK:
            return f"<mi>{GREEK[name]}</mi>"
        if name in SIGNS:
            return f"<mo>{SIGNS[name]}</mo>"
        if name in ACCENTS:
            return f'<mover accent="true">{self.atom()}<mo>{ACCENTS[name]}</mo></mover>'
        if name in NAMES:
            return f"<mi>{name}</mi><mo>\u2061</mo>"
        if name == "left":
            opening, body = self.next()[1], "".join(self.row())
            self.next()
            return f"<mrow><mo>{opening}</mo>{body}<mo>{self.next()[1]}</mo></mrow>"
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}"/>'
        if name == "frac":
            return f"<mfrac>{self.atom()}{self.atom()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self.atom()}</msqrt>"
        if name == "ell":
            return "<mi>ℓ</mi>"
        if name == "mathcal":
            return f"<mi>{SCRIPT[self.letters()]}</mi>"
        if name == "mathrm":
            return f'<mi mathvariant="normal">{self.letters()}</mi>'
        raise ValueError(f"tex: \\{name} in {self.tex!r}, which pages do not have")

    def letters(self) -> str:
        """What braces hold, as it is."""
        found = []
        if self.next()[1] != "{":
            raise ValueError(f"tex: {self.tex!r}, expected a brace")
        while (token := self.next()[1]) != "}":
            found.append(token)
        return html.escape("".join(found))
