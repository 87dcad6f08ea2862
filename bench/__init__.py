"""How fast Podium is, measured against floors and peers in the same run; `python -m bench` runs everything."""
