-- Random histories for wrk: each thread walks through its own sequence of POST /recommend.
-- Arguments after "--": highest id index, step between ids, first id, history length, k, seed.
local counter = 0

function setup(thread)
  thread:set("id", counter)
  counter = counter + 1
end

function init(args)
  items, step, first = tonumber(args[1]), tonumber(args[2]), tonumber(args[3])
  length, k = tonumber(args[4]), tonumber(args[5])
  math.randomseed(tonumber(args[6] or 0) * 1000 + id)
  bad = 0
end

function request()
  local ids, seen = {}, {}
  while #ids < length do
    local item = first + step * math.random(0, items - 1)
    if not seen[item] then
      seen[item] = true
      ids[#ids + 1] = item
    end
  end
  local body = '{"history":[' .. table.concat(ids, ",") .. '],"k":' .. k .. "}"
  return wrk.format("POST", "/recommend", { ["Content-Type"] = "application/json" }, body)
end

function response(status, headers, body)
  if status ~= 200 then
    bad = bad + 1
  end
end

-- One line of JSON that the benchmark reads; latencies are in microseconds.
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\nRESULT {"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p90_ms": %.3f, "p99_ms": %.3f, "max_ms": %.3f, '
      .. '"errors": %d, "not_200": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
    latency:percentile(99) / 1e3, latency.max / 1e3, e.connect + e.read + e.write + e.timeout, e.status
  ))
end
