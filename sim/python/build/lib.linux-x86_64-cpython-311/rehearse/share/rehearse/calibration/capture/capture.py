#!/usr/bin/env python3
"""capture.py — run pipeline stages on one GPU and keep what they take: see README.md.

    capture.py --dry-run [--case NAME]...     the plan of shapes; on the meta device with PyTorch;
                                              with --out also the plans for `rehearse`
    capture.py --out FOLDER [--case NAME]...  on a GPU
"""

import argparse
import os
import sys

import shapes


def dry_run(chosen):
    try:
        import torch
    except ImportError:
        torch = None
    for case in chosen:
        print(shapes.describe(case))
        if torch:
            from stage import Stage
            stage = Stage(case, "meta")
            stage.step()  # every shape has to fit every other
            total = sum(shapes.elements(shape) for _, shape in shapes.parameters(case))
            assert stage.buffer.numel() == total
            print("  passes run on the meta device")
    for table in shapes.TABLES:
        print(f"writes {table}")


def write_plans(chosen, folder):
    os.makedirs(folder, exist_ok=True)
    for case in chosen:
        with open(os.path.join(folder, case.name + ".textproto"), "w") as file:
            file.write(shapes.plan_text(case))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="print what would be run")
    parser.add_argument("--out", metavar="FOLDER", help="where the files go")
    parser.add_argument("--case", action="append", metavar="NAME", help="of cases.csv; default all")
    options = parser.parse_args()
    known = shapes.cases()
    names = options.case or [case.name for case in known]
    chosen = [case for case in known if case.name in names]
    for name in names:
        if name not in [case.name for case in known]:
            sys.exit(f"capture.py: there is no case '{name}'; cases.csv has: "
                     + ", ".join(case.name for case in known))
    if options.dry_run:
        if options.out:
            write_plans(chosen, options.out)
        return dry_run(chosen)
    if not options.out:
        sys.exit("capture.py: where to? write --out FOLDER, or --dry-run")
    try:
        import torch
    except ImportError:
        sys.exit("capture.py: PyTorch is not installed; --dry-run needs none")
    if not torch.cuda.is_available():
        sys.exit("capture.py: there is no GPU; --dry-run needs none")
    import measure
    write_plans(chosen, options.out)
    measure.capture(chosen, options.out)


if __name__ == "__main__":
    main()
