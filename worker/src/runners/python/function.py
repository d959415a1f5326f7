

script, function = sys.argv[1:]
sys.argv = [script]
own_place(script)
sys.exit(execute(script, None, function))
