"""The long programme of reliability: `python -m tests.long --help`. docs/reliability.md says what each part shows."""
