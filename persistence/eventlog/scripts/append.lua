-- Carries out a batch of operations, each as a whole or not at all, once.
--
-- KEYS[1] batch key of the writer     KEYS[4] open signals
-- KEYS[2] event log                   KEYS[5] runs due
-- KEYS[3] signal log                  KEYS[6] epoch
-- KEYS[7] webhooks due                KEYS[8] counts of webhooks
-- KEYS[9..] keys of single operations
-- ARGV[1] number of the batch, increasing from batch to batch of a writer
-- ARGV[2] program, see operation.go: all numbers are big-endian
-- ARGV[3..] values, used up from left to right by the program
--
-- Returns "FIRST STAMP", " OPERATION:GUARD" for each refused operation, followed by
-- "=SEQUENCE" with what is stored where that was not the expected one, and
-- " OPERATION.DELIVERY" for each delivery that an operation has left out.
-- FIRST is the id of the first event ("-" without one): the others follow by
-- ones. STAMP is the id that operations before the first event were given ("-" if
-- none was needed). The same batch again returns the same and does nothing. A
-- batch older than the last one is an error.
local call, byte, unpack, match, cut = redis.call, string.byte, unpack, string.match, string.sub
local keys, args = KEYS, ARGV
local events, signals = keys[2], keys[3]

local number = tonumber(args[1])
local last = call('GET', keys[1])
if last then
  local done, result = match(last, '^(%d+) (.*)$')
  done = tonumber(done)
  if done == number then
    -- A write, so that a WAIT behind it waits for the replicas of the first one.
    call('EXPIRE', keys[1], 600)
    return result
  end
  if done > number then
    return redis.error_reply('OLDBATCH a later batch was carried out')
  end
end

-- The commands of steps that are not 1 (event) or 2 (record). operation.go has
-- the same list.
local commands = {[3] = 'HSET', [4] = 'HDEL', [5] = 'SET', [6] = 'DEL', [7] = 'ZADD', [8] = 'ZREM', [9] = 'XADD',
  [10] = 'XACK', [11] = 'XDEL', [12] = 'EXPIRE', [13] = 'SADD', [14] = 'SREM', [15] = 'HINCRBY', [16] = 'PEXPIREAT',
  [17] = 'INCRBY', [18] = 'RPUSH', [19] = 'LTRIM'}

local program = args[2]
local size = #program
local pc, a = 1, 3
local first, stamp
local nextid = '*' -- what XADD is given: "*", then "MS-*"
local id           -- of the last event, or the stamp
local refused = ''
local operation = 0

-- Steps about deliveries, deliveries_steps.go has the same list. A member is the
-- delivery's 16 bytes and its type; a record begins as deliveries_codec.go says. k is
-- where the keys of the step begin, i and n its first and its last argument.
local waiting = 0   -- by how much the number of pending deliveries has changed
local due = {}      -- webhooks whose first due time may be another: pending deliveries by "ACCOUNT WEBHOOK"
local sooner = {}   -- webhooks with new deliveries: when the first of these is due
local made          -- deliveries that the operation has made, by the key of their body
local bodies = {}   -- of deliveries that the batch has made, with the number of these
local bodiesAt, bodyReferences -- their keys
local item          -- deliveries of the operation so far
local left = ''

-- The epoch, which no operation changes.
local epoch

-- The number that begins at byte i of s, as Go's binary.Uvarint reads it.
local function uvarint(s, i)
  local n, unit = 0, 1
  repeat
    local b = byte(s, i) or 0
    n, unit, i = n + b % 128 * unit, unit * 128, i + 1
  until b < 128
  return string.format('%.0f', n)
end

local function leave()
  left = left .. ' ' .. operation .. '.' .. item
end

-- The webhooks of accounts by their key, as sets, as the operation has found them.
local accounts = {}

local function registered(key)
  local set = accounts[key]
  if not set then
    set = {}
    for _, webhook in ipairs(call('HKEYS', key)) do
      set[webhook] = true
    end
    accounts[key] = set
  end
  return set
end

local steps = {}

-- [k] pending    ACCOUNT WEBHOOK
steps[20] = function(k, i)
  due[args[i]] = keys[k]
end

-- New deliveries, unless the webhook is gone; those that are there stay as they are.
-- [k] webhooks [k+1] pending [k+2] records [k+3] all   WEBHOOK, ACCOUNT WEBHOOK, then MEMBER DUE CREATED RECORD of each
steps[21] = function(k, i, n)
  if not registered(keys[k])[args[i]] then
    return
  end
  local ids, all = {}, {}
  for d = i + 2, n, 4 do
    ids[#ids + 1] = cut(args[d], 1, 16)
    all[#all + 1], all[#all + 2] = args[d + 2], args[d]
  end
  local known = {}
  if call('ZADD', keys[k + 3], 'NX', unpack(all)) < #ids then
    known = call('HMGET', keys[k + 2], unpack(ids))
  end
  local pending, records = {}, {}
  local soonest
  made = made or {}
  for j = 1, #ids do
    if not known[j] then
      local d, p = i - 2 + 4 * j, #pending
      local at, record = args[d + 1], args[d + 3]
      pending[p + 1], pending[p + 2] = at, args[d]
      records[p + 1], records[p + 2] = ids[j], record
      if not soonest or tonumber(at) < tonumber(soonest) then
        soonest = at
      end
      local body = cut(record, 2, 21)
      made[body] = (made[body] or 0) + 1
    end
  end
  if not soonest then
    return
  end
  call('HSET', keys[k + 2], unpack(records))
  waiting = waiting + call('ZADD', keys[k + 1], unpack(pending))
  local webhook = args[i + 1]
  if not sooner[webhook] or tonumber(soonest) < tonumber(sooner[webhook]) then
    sooner[webhook] = soonest
  end
end

-- The body of deliveries that the operation may have made.
-- [k] bodies [k+1] references   KEY BODY
steps[22] = function(k, i)
  local key = args[i]
  local n = made and made[key]
  if not n then
    return
  end
  made[key] = nil
  local body = bodies[key]
  if body then
    body.n = body.n + n
  else
    bodiesAt, bodyReferences = keys[k], keys[k + 1]
    bodies[key] = {text = args[i + 1], n = n}
  end
end

-- States after attempts, unless the delivery is not pending any more or is due at
-- another time than when the attempt was made (WAS, 6 bytes, "" for any), or was before
-- it in the list. The record keeps the key of its body. A delivery with the time of its
-- creation (CREATED, "" for others) is made by this if it is not there yet.
-- [k] pending [k+1] records [k+2] succeeded [k+3] failed [k+4] all   ACCOUNT WEBHOOK,
-- then MEMBER WAS CREATED TO SCORE RECORD of each, TO 0 for pending, 2 for succeeded, 3 for failed
steps[23] = function(k, i, n)
  local ids, new = {}, {}
  for d = i + 1, n, 6 do
    ids[#ids + 1] = cut(args[d], 1, 16)
    if args[d + 2] ~= '' then
      new[#new + 1], new[#new + 2] = args[d + 2], args[d]
    end
  end
  local old
  if #new == 0 or call('ZADD', keys[k + 4], 'NX', unpack(new)) < #ids then
    old = call('HMGET', keys[k + 1], unpack(ids))
  end
  local sets = {['0'] = {}, ['2'] = {}, ['3'] = {}}
  local ended, records, changed = {}, {}, {}
  local pending = false
  made = {}
  for j = 1, #ids do
    local d = i - 5 + 6 * j
    local was, to, record, is = args[d + 1], args[d + 3], args[d + 5], old and old[j]
    local isnew = not is and args[d + 2] ~= ''
    if not changed[ids[j]] and (isnew or is and byte(is, 40) % 4 == 0 and (was == '' or was == cut(is, 34, 39))) then
      changed[ids[j]] = true
      local set, r = sets[to], #records
      set[#set + 1], set[#set + 2] = args[d + 4], args[d]
      pending = pending or not isnew or to == '0'
      if isnew then
        local body = cut(record, 2, 21)
        made[body] = (made[body] or 0) + 1
      else
        record = cut(record, 1, 1) .. cut(is, 2, 21) .. cut(record, 22)
        if to ~= '0' then
          ended[#ended + 1] = args[d]
        end
      end
      records[r + 1], records[r + 2] = ids[j], record
    else
      leave()
    end
    item = item + 1
  end
  if #records > 0 then
    call('HSET', keys[k + 1], unpack(records))
  end
  if #ended > 0 then
    waiting = waiting - call('ZREM', keys[k], unpack(ended))
  end
  for to, set in pairs(sets) do
    if #set > 0 then
      local new = call('ZADD', keys[k + to], unpack(set))
      if to == '0' then
        waiting = waiting + new -- those that this has made, and such as were dropped
      end
    end
  end
  if pending then
    due[args[i]] = keys[k]
  end
end

-- Deliveries change by hand from one set to another: to pending, due at DUE, or to
-- failed. PATCH replaces the bytes of their records from 28 on.
-- [k] pending [k+1] records [k+2] succeeded [k+3] failed   ACCOUNT WEBHOOK, FROM TO DUE PATCH, then each MEMBER
steps[24] = function(k, i, n)
  local from, to, at, patch = keys[k + args[i + 1]], keys[k + args[i + 2]], args[i + 3], args[i + 4]
  local change = args[i + 2] == '0' and 1 or -1
  for d = i + 5, n do
    local member = args[d]
    local id = cut(member, 1, 16)
    local record = call('ZREM', from, member) == 1 and call('HGET', keys[k + 1], id)
    if record then
      local score = at
      if change < 0 then
        local a, b, c, e, f, g = byte(record, 22, 27)
        score = ((((a * 256 + b) * 256 + c) * 256 + e) * 256 + f) * 256 + g
      end
      call('ZADD', to, score, member)
      call('HSET', keys[k + 1], id, cut(record, 1, 27) .. patch .. cut(record, 28 + #patch))
      waiting = waiting + change
    else
      leave()
    end
    item = item + 1
  end
  due[args[i]] = keys[k]
end

-- The webhook goes: nothing of it is due.
-- [k] any   ACCOUNT WEBHOOK
steps[25] = function(_, i)
  due[args[i]], sooner[args[i]] = nil, nil
  call('ZREM', keys[7], args[i])
end

while pc <= size do
  local guards, l1, l2, l3, v1, v2, v3, b1, b2 = byte(program, pc, pc + 8)
  pc = pc + 9
  local stop = pc + l1 * 65536 + l2 * 256 + l3
  local nexta = a + v1 * 65536 + v2 * 256 + v3
  local base = b1 * 256 + b2 -- keys from 16 on are counted from here
  local kept, found -- first word of the value that the first guard of kind 1 found, and all of it
  for g = 1, guards do
    local kind, k1, k2 = byte(program, pc, pc + 2)
    pc = pc + 3
    local k = k1 * 256 + k2
    local key = k < 16 and keys[k] or keys[base + k - 16]
    local ok
    local is = '' -- what is stored instead
    if kind == 1 then -- field exists
      local value = call('HGET', key, args[a])
      a = a + 1
      ok = value
      if value and not kept then
        kept, found = match(value, '^[^ ]*'), value
      end
    elseif kind == 2 then -- field has the value
      ok = call('HGET', key, args[a]) == args[a + 1]
      a = a + 2
    elseif kind == 3 and k == 6 then -- the epoch has the value: read once for a batch
      epoch = epoch or call('GET', key)
      ok = epoch == args[a]
      a = a + 1
    elseif kind == 3 then -- key has the value
      ok = call('GET', key) == args[a]
      a = a + 1
    elseif kind == 4 then -- no such field
      ok = call('HEXISTS', key, args[a]) == 0
      a = a + 1
    elseif kind == 5 then -- no such key
      ok = call('EXISTS', key) == 0
    elseif kind == 6 then -- key exists
      ok = call('EXISTS', key) == 1
    elseif kind == 7 then -- sorted set has the member
      ok = call('ZSCORE', key, args[a])
      a = a + 1
    elseif kind == 8 then -- hash is shorter
      ok = call('HLEN', key) < tonumber(args[a])
      a = a + 1
    elseif kind == 9 then -- the open signal that was found has the sequence, see appendOpen
      local _, stamps = string.find(found, '^[^ ]* [^ ]* ')
      ok = stamps and cut(found, stamps + 10, stamps + 9 + #args[a]) == args[a]
      if stamps and not ok then
        is = '=' .. uvarint(found, stamps + 10)
      end
      a = a + 1
    end
    if not ok then
      refused = refused .. ' ' .. operation .. ':' .. (g - 1) .. is
      pc = stop
      break
    end
  end
  made, item, accounts = nil, 0, {}
  while pc < stop do
    local code, k1, k2, mode, at, n1, n2 = byte(program, pc, pc + 6)
    pc = pc + 7
    local n = n1 * 256 + n2
    if mode > 0 then -- put the time in front of a value
      if not id then
        local t = call('TIME')
        id = t[1] .. string.format('%03d', math.floor(t[2] / 1000)) .. '-0'
        stamp = id
      end
      local i = a + at
      if mode == 1 then
        args[i] = id .. ' ' .. args[i]
      elseif mode == 2 then
        args[i] = kept .. ' ' .. id .. ' ' .. args[i]
      else
        args[i] = id .. ' ' .. id .. ' ' .. args[i]
      end
    end
    if code == 1 then
      id = call('XADD', events, nextid, 'h', args[a], 'd', args[a + 1])
      if not first then
        first = id
        nextid = match(id, '^%d+') .. '-*'
      end
    elseif code == 2 then
      call('XADD', signals, id, 'h', args[a], 'm', args[a + 1])
    elseif code >= 20 then
      steps[code](base + k1 * 256 + k2 - 16, a, a + n - 1)
    else
      local k = k1 * 256 + k2
      call(commands[code], k < 16 and keys[k] or keys[base + k - 16], unpack(args, a, a + n - 1))
    end
    a = a + n
  end
  a = nexta
  operation = operation + 1
end

-- Lua can unpack some thousands of values.
local function inParts(list, f)
  for i = 1, #list, 2000 do
    f(unpack(list, i, math.min(i + 1999, #list)))
  end
end

local fields = {}
for key in pairs(bodies) do
  fields[#fields + 1] = key
end
inParts(fields, function(...)
  local known, new = call('HMGET', bodiesAt, ...), {}
  for i, key in ipairs({...}) do
    local body = bodies[key]
    local n = body.n
    if not known[i] then
      new[#new + 1], new[#new + 2] = key, body.text
      n = n - 1
    end
    if n > 0 then
      call('HINCRBY', bodyReferences, key, n)
    end
  end
  inParts(new, function(...) call('HSET', bodiesAt, ...) end)
end)

if waiting ~= 0 then
  call('HINCRBY', keys[8], 'pending', waiting)
end
local next, none, earlier = {}, {}, {}
for webhook, pending in pairs(due) do
  local earliest = call('ZRANGE', pending, 0, 0, 'WITHSCORES')
  if earliest[2] then
    next[#next + 1], next[#next + 2] = earliest[2], webhook
  else
    none[#none + 1] = webhook
  end
end
-- New deliveries can only make a first due time earlier.
for webhook, at in pairs(sooner) do
  if not due[webhook] then
    earlier[#earlier + 1], earlier[#earlier + 2] = at, webhook
  end
end
inParts(next, function(...) call('ZADD', keys[7], ...) end)
inParts(none, function(...) call('ZREM', keys[7], ...) end)
inParts(earlier, function(...) call('ZADD', keys[7], 'LT', ...) end)

local result = (first or '-') .. ' ' .. (stamp or '-') .. refused .. left
call('SET', keys[1], args[1] .. ' ' .. result, 'EX', 600)
return result
