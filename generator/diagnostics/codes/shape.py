"""Shape and syntax (1xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import Code, E, W

CODES = {
    "RTD101": Code(
        "the file is not valid YAML",
        E,
        why="YAML 1.2, UTF-8, one document per file",
    ),
    "RTD102": Code(
        "a key stands twice in one map",
        E,
        why="YAML readers keep one of the two in silence",
    ),
    "RTD103": Code(
        "unknown key",
        E,
        why="a misspelt key would otherwise do nothing",
    ),
    "RTD104": Code(
        "a value has the wrong type or form",
        E,
        why='nothing is coerced: `nodes: "2"` and `kubernetesVersion: 1.30` are refused',
    ),
    "RTD105": Code(
        "a required key is missing",
        E,
        why="the key has no default",
    ),
    "RTD106": Code(
        "a file is missing or cannot be read",
        E,
        why="an environment names a cluster without a file, or a file cannot be read",
    ),
    "RTD107": Code(
        "the name in the file is not the name of the file or folder",
        E,
        why="the name decides where things are looked for",
    ),
    "RTD108": Code(
        "the file is too large or too deeply nested",
        E,
        why="at most 1 MiB, 50 levels and 20,000 values with aliases followed",
    ),
    "RTD109": Code(
        "a training argument is unknown or has a bad value",
        E,
        why="checked by `training/config.py` itself",
    ),
    "RTD120": Code(
        "a layer is missing, or its name is not one",
        E,
        why="`extends` names files in `environments/_base/`, without folder and ending",
        fix="correct the name, or create the file",
    ),
    "RTD121": Code(
        "layers extend each other in a circle, or too deeply",
        E,
        why="no order of the layers would hold; at most 10 levels",
        fix="remove one `extends`; what several layers share goes into a layer below them",
    ),
    "RTD122": Code(
        "no environment extends this layer",
        W,
        why="what it says has no effect; only looked for when all environments are validated",
        fix="name it under `extends` of an environment, or remove the file",
    ),
    "RTD130": Code(
        "the file has an older format",
        E,
        why="the number in `schemaVersion` says how its keys are meant",
        fix="`python -m generator migrate` raises it; comments stay",
    ),
    "RTD131": Code(
        "the file has a format that this version does not know",
        E,
        why="it was written for a newer version of this tool",
        fix="use that version",
    ),
    "RTD132": Code(
        "the file holds Git's conflict markers",
        E,
        why="a merge was not finished: two versions stand in the file",
        fix="keep one side or both, and remove the lines of markers",
    ),
    "RTD140": Code(
        "the chart does not take this value",
        E,
        why="`values` are judged by the chart's own schema",
    ),
    "RTD141": Code(
        "a value that the environment decides",
        E,
        why="`values` are for what has no key here: a number in two places would differ one day",
    ),
    "RTD142": Code(
        "the code of your own cannot be used as written",
        E,
        why="one source, a module that runs it, and a commit that does not move under the name of the job",
    ),
    "RTD143": Code(
        "the source of model or data is malformed",
        E,
        why="a name on the hub with its commit, an `s3://` address, or a path inside the pods",
    ),
    "RTD144": Code(
        "a label, annotation or Secret that cannot be used here",
        E,
        why="it belongs to Helm, the operator, a queue or the chart, or is there twice",
    ),
}
