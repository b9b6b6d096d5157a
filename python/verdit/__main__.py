"""python -m verdit: record, synth."""

import argparse
import json
import sys

from . import __version__, files

EPILOG = """examples:
  python -m verdit record models/moss-small /tmp/case --size 8x12 --text-rows 40 --t 910 --skip 4
  python -m verdit record MODEL CASE --size 64x64 --text prompt.safetensors --t 910 --branch negative --skip 22
  python -m verdit record MODEL CASE --add-runs cuda --out NEW     # on a machine with a GPU: only that run is added

exit status: 0 written; 2 usage; 3 bad input file; 4 cannot be done as asked; 6 reading or writing failed"""


def size_of(text):
    h, x, w = text.partition("x")
    if not x or not h.isdigit() or not w.isdigit() or int(h) < 1 or int(w) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give HxW in latent rows and columns, such as 32x32")
    return int(h), int(w)


def indices(text):
    parts = text.replace(",", " ").split()
    if not all(part.isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: give block numbers, such as 22 or 3,7")
    return [int(part) for part in parts]


def at_least(lowest):
    def parse(text):
        if not text.isdigit() or int(text) < lowest:
            raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number, {lowest} or more")
        return int(text)

    return parse


def parser():
    top = argparse.ArgumentParser(prog="python -m verdit", description="Records cases from torch for `verdit gate`.")
    top.add_argument("--version", action="version", version=f"verdit {__version__}")
    verbs = top.add_subparsers(dest="verb", required=True)
    rec = verbs.add_parser("record", help="record a case from torch", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    rec.add_argument("model", metavar="MODEL_DIR", help="pipeline folder (with transformer/), or the transformer's own folder")
    rec.add_argument("case", metavar="CASE_DIR", help="folder to write; refused if it exists, unless --force")
    rec.add_argument("--size", type=size_of, default=(8, 12), metavar="HxW", help="latent rows and columns (default: 8x12)")
    text = rec.add_mutually_exclusive_group()
    text.add_argument("--text-rows", type=at_least(1), default=40, metavar="T", help="synthetic text states (default: 40)")
    text.add_argument("--text", metavar="FILE", help="safetensors with the tensor text [T, text_dim]")
    rec.add_argument("--t", type=float, default=910.0, help="timestep, 1000 sigma (default: 910)")
    rec.add_argument("--seed", type=at_least(0), default=1, help="of the synthetic inputs and the permutations (default: 1)")
    rec.add_argument("--skip", type=indices, default=[], metavar="LIST", help="blocks to leave out")
    rec.add_argument("--policy", default="bf16", choices=("bf16", "f32", "f32-situ"))
    rec.add_argument("--runs", type=at_least(0), default=8, metavar="K", help="mixed runs (default: 8)")
    rec.add_argument("--branch", default="positive", metavar="NAME", help="a name for people (default: positive)")
    rec.add_argument("--step", type=at_least(0), default=0, help="number of the step in its schedule (default: 0)")
    rec.add_argument("--cuda", default="auto", choices=("auto", "yes", "no"), help="a run on the GPU too, with its bytes (default: auto)")
    rec.add_argument(
        "--module",
        default="ours",
        choices=("ours", "publisher", "sglang"),
        help="want the whole step of this class to equal ours, byte for byte, before anything is written; "
        "publisher runs code from MODEL_DIR/pipeline_moss_image.py",
    )
    rec.add_argument("--wheel", metavar="FILE", help="SGLang's wheel, for --module sglang")
    rec.add_argument("--add-runs", choices=("cuda",), help="add this run to an existing CASE_DIR; all else stays byte for byte")
    rec.add_argument("--out", metavar="DIR", help="write here instead, as if it were CASE_DIR")
    rec.add_argument("--force", action="store_true", help="replace an existing case")
    syn = verbs.add_parser("synth", help="a synthetic model folder (slow for large ones: `verdit synth` makes the same bytes)")
    syn.add_argument("folder", metavar="DIR")
    syn.add_argument("--config", required=True, metavar="JSON", help="config.json's content, or @FILE")
    syn.add_argument("--seed", type=at_least(0), default=1)
    return top


def run(args):
    if args.verb == "synth":
        from . import synth
        from .moss_image import Config

        if args.config.startswith("@"):
            with open(args.config[1:], encoding="utf-8") as file:
                args.config = file.read()
        synth.write_folder(args.folder, Config.from_dict(json.loads(args.config)).to_dict(), args.seed)
        return
    if args.module == "sglang" and not args.wheel:
        raise files.CannotRecord("--module sglang: give --wheel FILE")
    if not args.add_runs:
        files.Folder(args.out or args.case, args.force)  # refuses at once, before torch is looked for
    from . import recorder

    if args.add_runs:
        recorder.add_cuda(args.model, args.case, args.out)
        return
    recorder.record(
        args.model,
        args.case,
        args.size,
        args.text_rows,
        args.text,
        args.t,
        args.seed,
        args.skip,
        args.policy,
        args.runs,
        args.branch,
        args.step,
        args.cuda,
        args.out,
        args.force,
        args.module,
        args.wheel,
    )


def main(argv=None):
    args = parser().parse_args(argv)
    try:
        run(args)
    except ModuleNotFoundError as error:
        print(
            f"verdit: {args.verb} needs the Python package {error.name}: run pip install '.[record]' in Verdit's folder, or install torch, numpy and safetensors",
            file=sys.stderr,
        )
        return 4
    except Exception as error:
        name = type(error).__name__
        status = 6 if isinstance(error, OSError) and not isinstance(error, FileNotFoundError) else 4 if name == "CannotRecord" else 3
        if not isinstance(error, (OSError, ValueError)) and name not in ("CannotRecord", "SafetensorError"):
            raise
        print(f"verdit: {error}", file=sys.stderr)
        return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
