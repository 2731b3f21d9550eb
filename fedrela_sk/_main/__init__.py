"""The parts of ``python -m fedrela_sk``: arguments, data, models, the study, its text and its files."""
