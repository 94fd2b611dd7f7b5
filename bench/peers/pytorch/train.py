"""The PyTorch peer: trains one network in one process, as fast as PyTorch can fairly go.

The last line on standard output is a JSON `finished` event in the shape of ours. The networks here and the job files in
`bench/jobs/` describe the same amount of arithmetic; the harness stops when their parameter counts differ.
"""

from training import Place, Training, parser

if __name__ == "__main__":
    Training(parser(__doc__.splitlines()[0]).parse_args(), Place()).run()
