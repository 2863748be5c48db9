"""How often the verdict's sentences err, measured: `python -m analysis.methods` writes the tables of METHODS.md.

trials       studies of a known truth, judged by the rule itself        planned   the planner, held to what it says
candidates   other ways that were tried, and who keeps 5%               rows      measuring, keeping, tables
"""
