translate = latency = start = None
