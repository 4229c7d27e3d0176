-- Drops deliveries of a webhook and everything that belongs to them, for the owner of its
-- partition.
-- KEYS[1] epoch              KEYS[4] references of bodies   KEYS[7] all deliveries
-- KEYS[2] counts             KEYS[5] pending                KEYS[8] succeeded
-- KEYS[3] bodies             KEYS[6] records                KEYS[9] failed
-- ARGV[1] epoch of the owner
-- ARGV[2] "all"; "" for those that have ended; 6 bytes for those that ended by that time
-- ARGV[3..] members
-- Returns how many it has dropped, -1 if another epoch holds the partition.
local call, cut = redis.call, string.sub
if call('GET', KEYS[1]) ~= ARGV[1] then
  return -1
end
local limit = ARGV[2]
local ids = {}
for i = 3, #ARGV do
  ids[#ids + 1] = cut(ARGV[i], 1, 16)
end
if #ids == 0 then
  return 0
end
local records = call('HMGET', KEYS[6], unpack(ids))
local members, fields = {}, {}
local bodies, uses = {}, {}
for i, record in ipairs(records) do
  local ended = record and string.byte(record, 40) % 4 ~= 0
  if limit == 'all' or not record or ended and (limit == '' or cut(record, 28, 33) <= limit) then
    members[#members + 1], fields[#fields + 1] = ARGV[i + 2], ids[i]
    if record then
      local body = cut(record, 2, 21)
      if not uses[body] then
        bodies[#bodies + 1] = body
      end
      uses[body] = (uses[body] or 0) + 1
    end
  end
end
if #members == 0 then
  return 0
end
if limit == 'all' then
  local pending = call('ZREM', KEYS[5], unpack(members))
  if pending > 0 then
    call('HINCRBY', KEYS[2], 'pending', -pending)
  end
end
call('HDEL', KEYS[6], unpack(fields))
for k = 7, 9 do
  call('ZREM', KEYS[k], unpack(members))
end
if #bodies > 0 then
  -- How many others have a body, if any.
  local others = call('HMGET', KEYS[4], unpack(bodies))
  local unused, single, shared = {}, {}, {}
  for i, body in ipairs(bodies) do
    local left = (tonumber(others[i]) or 0) - uses[body]
    if left < 0 then
      unused[#unused + 1] = body
    end
    if left > 0 then
      shared[#shared + 1], shared[#shared + 2] = body, left
    elseif others[i] then
      single[#single + 1] = body
    end
  end
  if #unused > 0 then
    call('HDEL', KEYS[3], unpack(unused))
  end
  if #single > 0 then
    call('HDEL', KEYS[4], unpack(single))
  end
  if #shared > 0 then
    call('HSET', KEYS[4], unpack(shared))
  end
end
return #members
