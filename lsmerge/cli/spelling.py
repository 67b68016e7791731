"""Text from elsewhere made fit for a line on a terminal."""


def spelled(text: str) -> str:
    """The text with its control characters spelled, which might otherwise steer the terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
