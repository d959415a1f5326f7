"""Serves a GGUF file as an OpenAI-compatible server with llama.cpp (`pip install xllamacpp`): serve_gguf.py FILE [PORT]."""

import sys
import threading

import xllamacpp


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.port = int(sys.argv[2]) if len(sys.argv) > 2 else 8080
    params.n_ctx = 8192
    params.n_parallel = 1
    params.n_predict = 512
    params.cpuparams.n_threads = 1
    params.use_jinja = True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
