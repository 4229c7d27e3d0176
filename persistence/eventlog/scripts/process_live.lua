-- Reports whether a process is live.
-- KEYS[1] processes, as in node_announce.lua   ARGV[1] node   ARGV[2] nonce of the process
-- Returns 1 or 0.
local t = redis.call('TIME')
local till, nonce = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (%S+)')
if nonce == ARGV[2] and tonumber(till) > t[1] * 1000 + math.floor(t[2] / 1000) then
  return 1
end
return 0
