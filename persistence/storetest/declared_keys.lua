local redis = (function(server, keys)
  -- Where the keys of a command are: the first of its arguments, all, or the one of this number.
  local at = {}
  for name in string.gmatch([[EXPIRE GET GETRANGE HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET HSET HSETNX
    INCR PERSIST PEXPIRE PEXPIREAT RPUSH SADD SET SETRANGE SREM XACK XADD XAUTOCLAIM XCLAIM XDEL XLEN XPENDING XRANGE
    XREVRANGE XTRIM ZADD ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE ZREM ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGE
    ZSCORE]], '%S+') do
    at[name] = 1
  end
  at.XGROUP, at.XINFO = 2, 2
  at.DEL, at.EXISTS, at.UNLINK, at.TIME = 'all', 'all', 'all', 'none'
  local declared = {}
  for _, key in ipairs(keys) do
    declared[key] = true
  end
  local function check(command, ...)
    local args, name = {...}, string.upper(command)
    local first, last = at[name], at[name]
    if name == 'XREADGROUP' then
      for i, arg in ipairs(args) do
        if string.upper(arg) == 'STREAMS' then
          first = i + 1
          last = i + (#args - i) / 2
          break
        end
      end
    elseif first == 'all' then
      first, last = 1, #args
    elseif first == 'none' then
      return
    end
    if not first then
      error('UNDECLARED declared_keys.lua does not know where the keys of ' .. name .. ' are')
    end
    for i = first, last do
      if not declared[args[i]] then
        error('UNDECLARED ' .. name .. ' of ' .. tostring(args[i]) .. ', which is not in KEYS')
      end
    end
  end
  return {
    call = function(...)
      check(...)
      return server.call(...)
    end,
    pcall = function(...)
      check(...)
      return server.pcall(...)
    end,
    error_reply = server.error_reply,
    status_reply = server.status_reply,
  }
end)(redis, KEYS)
