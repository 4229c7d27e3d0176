-- Marks the jobs of entries that take.lua has taken as running.
--
-- KEYS[1] queue            ARGV[1] consumer: the node's id
-- KEYS[2...] of each:      ARGV[2...] of each:
--   the job                  entry
--   its account's queued     job id
--   and running jobs
--
-- Returns {entry, job id, attempt, started at in ms, request} of each that is running now.
-- Removes entries without a queued or running job from the queue. Leaves out those that
-- another consumer has meanwhile: it starts them.
local call = redis.call
local queue, me = KEYS[1], ARGV[1]
local started, now = {}, nil

local function start(record, queued, running, entry, job)
  local pending = call('XPENDING', queue, 'jobs', entry, entry, 1)[1]
  if not pending or pending[2] ~= me then
    return
  end
  local status, attempt = string.match(call('HGET', record, 's') or '', '^(%a+) (%d+)$')
  if status ~= 'queued' and status ~= 'running' then
    call('XACK', queue, 'jobs', entry)
    call('XDEL', queue, entry)
    return
  end
  attempt = tonumber(attempt) + 1
  if not now then
    local t = call('TIME')
    now = t[1] .. string.format('%03d', math.floor(t[2] / 1000))
  end
  call('HSET', record, 's', 'running ' .. attempt)
  call('HSETNX', record, 't', now)
  if status == 'queued' then
    local created = call('ZSCORE', queued, job)
    if created then
      call('ZREM', queued, job)
      call('ZADD', running, created, job)
    end
  end
  local fields = call('HMGET', record, 't', 'q')
  started[#started + 1] = {entry, job, attempt, fields[1], fields[2] or ''}
end

for i = 0, (#KEYS - 1) / 3 - 1 do
  start(KEYS[2 + 3 * i], KEYS[3 + 3 * i], KEYS[4 + 3 * i], ARGV[2 + 2 * i], ARGV[3 + 2 * i])
end
return started
