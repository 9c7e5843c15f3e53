"""The chart's values: types, defaults and texts. From here come its values.yaml, its schema and the tables of it.

The models describe what a person may write. What several values together must obey is in the chart's own templates,
so that it holds for users who have nothing but Helm.
"""
