-- Finds where the pending deliveries of a webhook continue after the newest ones, without
-- reading these: all deliveries except the ended ones are pending.
-- KEYS[1] all by creation     KEYS[2] succeeded     KEYS[3] failed
-- ARGV[1] how many of the newest pending ones are left out
-- Returns from which member of KEYS[1] on to read, newest first, and how many pending
-- ones from there are left out.
local call = redis.call
local wanted = tonumber(ARGV[1])
local function bound(command)
  local first = call(command, KEYS[1], 0, 0, 'WITHSCORES')
  return tonumber(first[2] or 0)
end
local function newer(key, ms)
  return call('ZCOUNT', key, '(' .. string.format('%.0f', ms), '+inf')
end
local function pending(ms)
  return newer(KEYS[1], ms) - newer(KEYS[2], ms) - newer(KEYS[3], ms)
end
-- The earliest time after which no more are pending than are left out.
local low, high = bound('ZRANGE'), bound('ZREVRANGE')
while low < high do
  local middle = math.floor((low + high) / 2)
  if pending(middle) <= wanted then
    high = middle
  else
    low = middle + 1
  end
end
return {newer(KEYS[1], high), math.max(wanted - pending(high), 0)}
