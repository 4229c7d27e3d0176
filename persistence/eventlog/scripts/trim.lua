-- Removes the oldest entries of an event log, never after the owner's position.
-- KEYS[1] event log           ARGV[1] milliseconds for which entries are kept
-- KEYS[2] owner's position    ARGV[2] how many entries are kept at most
-- KEYS[3] epoch               ARGV[3] epoch of the owner; "0": do not compare
-- Returns how many were removed, or -1 if another epoch holds the partition. Whole
-- nodes of the stream are removed, some 10,000 entries a call at most: call again
-- while that many were.
if ARGV[3] ~= '0' and redis.call('GET', KEYS[3]) ~= ARGV[3] then
  return -1
end
local position = redis.call('GET', KEYS[2])
if not position then
  return 0
end
local safe = tonumber(string.match(position, '^%d+'))
local now = redis.call('TIME')
local old = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000) - tonumber(ARGV[1])
local removed
if old < safe then
  removed = redis.call('XTRIM', KEYS[1], 'MINID', '~', string.format('%.0f-0', math.max(old, 0)))
else
  removed = redis.call('XTRIM', KEYS[1], 'MINID', '~', position)
end
local over = redis.call('XLEN', KEYS[1]) - tonumber(ARGV[2])
if over > 0 then
  removed = removed + redis.call('XTRIM', KEYS[1], 'MINID', '~', position, 'LIMIT', math.min(over, 10000))
end
return removed
