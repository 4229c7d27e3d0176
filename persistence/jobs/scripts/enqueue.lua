-- Stores a job and puts it into the queue, once.
--
-- KEYS[1] the job               KEYS[4] the account's ended jobs
-- KEYS[2] the account's jobs    KEYS[5] queue
-- KEYS[3] its queued jobs       KEYS[6] completed jobs, KEYS[7] failed jobs
--                               KEYS[8] reply of the Idempotency-Key, or absent
-- ARGV[1] job id                ARGV[5] request
-- ARGV[2] account               ARGV[6] now, in ms
-- ARGV[3] created at, in ms     ARGV[7] reply
-- ARGV[4] limit of queued jobs  ARGV[8] how long the reply is kept, in ms
--                               ARGV[9] value of the key's lock
--
-- Returns 1 if the job is stored, now or by an earlier try, 0 if too many jobs of
-- the account are queued, 2 if another request has taken the key.
local call = redis.call
if call('EXISTS', KEYS[1]) == 1 then
  return 1
end
local lock = KEYS[8] and call('GET', KEYS[8])
if lock and lock ~= ARGV[9] then
  return 2
end
if call('ZCARD', KEYS[3]) >= tonumber(ARGV[4]) then
  return 0
end
local old = call('ZRANGEBYSCORE', KEYS[4], '-inf', ARGV[6], 'LIMIT', 0, 100)
if #old > 0 then
  for _, k in ipairs({KEYS[2], KEYS[4], KEYS[6], KEYS[7]}) do
    call('ZREM', k, unpack(old))
  end
end
local entry = call('XADD', KEYS[5], '*', 'j', ARGV[1], 'a', ARGV[2])
call('HSET', KEYS[1], 's', 'queued 0', 'q', ARGV[5])
call('ZADD', KEYS[2], ARGV[3], ARGV[1])
call('ZADD', KEYS[3], ARGV[3], ARGV[1])
call('PERSIST', KEYS[2])
if KEYS[8] then
  call('SET', KEYS[8], entry .. ' ' .. ARGV[7], 'PX', ARGV[8])
end
return 1
